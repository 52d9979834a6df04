/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of which text has which number in a segment, so that SQLite is asked once a text. Bounded: forgets all when
 * full, which costs time only. */
#ifndef RANKTRACE_DAEMON_STORE_STORE_TEXTS_H
#define RANKTRACE_DAEMON_STORE_STORE_TEXTS_H

#include "daemon/store/store_internal.h"

bool texts_find(const struct texts *texts, const char *text, int64_t *ret);
void texts_add(struct texts *texts, const char *text, int64_t id);
void texts_free(struct texts *texts);

#endif
