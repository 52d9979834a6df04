/* SPDX-License-Identifier: Apache-2.0 */
/* Outcomes summed by category, printed, and compared with the goals. */
#ifndef RANKTRACE_SIM_ACCURACY_TABLE_H
#define RANKTRACE_SIM_ACCURACY_TABLE_H

#include <stdio.h>

#include "tests/sim/accuracy_judge.h"

void table_add(const struct case_spec *spec, const struct outcome *outcome);
void table_print(FILE *out, bool markdown);
void table_csv_head(FILE *out);
void table_csv(FILE *out, const struct case_spec *spec, const struct outcome *outcome);
/* Prints each goal with the result; returns the number missed. */
unsigned table_goals(FILE *out, unsigned *ret_fallen); /* ret_fallen: number worse than the short set's bound */

#endif
