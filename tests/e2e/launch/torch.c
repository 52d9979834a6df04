/* SPDX-License-Identifier: Apache-2.0 */
/* A library whose name makes its process a rank. */
extern int launch_rank;
int launch_rank __attribute__((visibility("default"))) = 1;
