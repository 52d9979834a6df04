/* SPDX-License-Identifier: Apache-2.0 */
/* Python strings as UTF-8, each text kept once. */
#ifndef RANKTRACE_STACKS_PYTHON_TEXT_H
#define RANKTRACE_STACKS_PYTHON_TEXT_H

#include "stacks/python/layout.h"

#define PYTEXT_CHARACTERS_MAX 1024u /* of a string; the rest is cut */

struct pytexts;

struct pytexts *pytexts_new(void);
void pytexts_free(struct pytexts *texts);
/*
 * The str object at this address. -EBADMSG: it is none. -ENOMEM: also if all texts are too large. Else errors of
 * pymem_read(). The text belongs to `texts`.
 */
int pytexts_read(struct pytexts *texts, struct pymem *memory, const struct pylayout *layout, uint64_t type,
		 uint64_t address, const char **ret);

#endif
