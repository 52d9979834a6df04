/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences about profiles, for pages and terminals. Each yields its buffer. */
#ifndef RANKTRACE_FLAME_FLAME_WORDS_H
#define RANKTRACE_FLAME_FLAME_WORDS_H

#include "analyzers/flame/flame.h"

#define FLAME_WORDS_BYTES 640

/* What the profile shows, in one sentence. */
const char *flame_words_title(const struct flame_view *view, char ret[FLAME_WORDS_BYTES]);
/* "ranks 0-3" */
const char *flame_words_ranks(const struct flame_source *source, char ret[FLAME_WORDS_BYTES]);
/* How many samples, and what is missing. */
const char *flame_words_counts(const struct flame_view *view, char ret[FLAME_WORDS_BYTES]);
/* Own work and waits of both sides. */
const char *flame_words_work(const struct profile_diff *diff, char ret[FLAME_WORDS_BYTES]);
/* "30 ms", "0" */
const char *flame_words_duration(double ns, char ret[FLAME_WORDS_BYTES]);

#endif
