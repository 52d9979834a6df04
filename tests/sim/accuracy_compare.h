/* SPDX-License-Identifier: Apache-2.0 */
/* Outcomes compared with sysTrace's rules on the same cases. */
#ifndef RANKTRACE_SIM_ACCURACY_COMPARE_H
#define RANKTRACE_SIM_ACCURACY_COMPARE_H

#include <stdio.h>

#include "tests/sim/accuracy_judge.h"

void compare_add(const struct case_spec *spec, const struct outcome *outcome);
void compare_print(FILE *out, bool markdown);

#endif
