/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process has which number, and which step it was at. The loop's list gives the numbers; the writer's is a copy,
 * from which it writes. Bounded; the lowest number goes first.
 */
#include "daemon/store/store_internal.h"
#include "analyzers/base/array.h"

#define WRITTEN_BEFORE UINT64_MAX /* in a segment of before the start: goes into the next one, makes none */

int identities_init(struct identities *identities)
{
	identities->next = 1;
	identities->list = calloc(STATE_ROWS_MAX, sizeof(*identities->list));
	return identities->list ? 0 : -ENOMEM;
}

void identities_free(struct identities *identities)
{
	free(identities->list);
	*identities = (struct identities){0};
}

static size_t identities_position(const struct identities *identities, int64_t instance)
{
	return array_first_not(i, identities->count, identities->list[i].instance < instance);
}

struct identity *identities_find(const struct identities *identities, int64_t instance)
{
	size_t i = identities_position(identities, instance);

	if (i == identities->count || identities->list[i].instance != instance)
		return NULL;
	return &identities->list[i];
}

struct identity *identities_add(struct identities *identities, int64_t instance)
{
	struct identity *at = identities_find(identities, instance);
	size_t i;

	if (at)
		return at;
	if (identities->count == STATE_ROWS_MAX)
		memmove(identities->list, identities->list + 1, --identities->count * sizeof(*at));
	i = identities_position(identities, instance);
	at = &identities->list[i];
	memmove(at + 1, at, (identities->count++ - i) * sizeof(*at));
	*at = (struct identity){.instance = instance};
	if (instance >= identities->next && instance < INT64_MAX)
		identities->next = instance + 1;
	return at;
}

void identities_step(struct identities *identities, int64_t instance, int64_t step)
{
	struct identity *at = identities_find(identities, instance);

	if (!at || step <= at->last_step)
		return;
	at->last_step = step;
	at->changed = true;
}

int identities_number(
	struct identities *identities, const char *boot_id, uint32_t pid, uint64_t start_time_ns, int64_t *ret)
{
	struct identity *at;

	for (size_t i = identities->count; i-- > 0;) {
		at = &identities->list[i];
		if (at->pid == pid && at->start_time_ns == start_time_ns && streq(at->boot_id, boot_id)) {
			*ret = at->instance;
			return 0;
		}
	}
	if (strlen(boot_id) >= sizeof(at->boot_id))
		return -EINVAL;
	at = identities_add(identities, identities->next);
	(void)copy_text(at->boot_id, sizeof(at->boot_id), boot_id);
	at->pid = pid;
	at->start_time_ns = start_time_ns;
	at->changed = true;
	*ret = at->instance;
	return 0;
}

static void identities_load_row(struct identities *identities, sqlite3_stmt *statement)
{
	const char *boot_id = (const char *)sqlite3_column_text(statement, 1);
	struct identity *at = identities_add(identities, sqlite3_column_int64(statement, 0));
	int64_t last_step = sqlite3_column_int64(statement, 4);

	(void)copy_text(at->boot_id, sizeof(at->boot_id), boot_id ? boot_id : "");
	at->pid = (uint32_t)sqlite3_column_int64(statement, 2);
	at->start_time_ns = (uint64_t)sqlite3_column_int64(statement, 3);
	if (last_step > at->last_step)
		at->last_step = last_step;
	for (size_t i = 0; i < TIER_MAX; i++)
		at->written[i] = WRITTEN_BEFORE;
}

/* Beyond the bound, rows with lower numbers than those in the list. */
static bool identities_takes(const struct identities *identities, int64_t instance)
{
	return identities->count < STATE_ROWS_MAX || instance >= identities->list[0].instance;
}

int identities_load(struct identities *identities, const char *path)
{
	sqlite3_stmt *statement = NULL;
	sqlite3 *db = NULL;
	int rc, r;

	rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL);
	if (rc == SQLITE_OK) /* a checkpoint syncs; the writer makes it */
		rc = sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(db,
			"SELECT instance, boot_id, pid, start_time_ns, last_step FROM instances"
			" WHERE typeof(instance)='integer' AND instance>0 ORDER BY instance DESC LIMIT 4096",
			-1, &statement, NULL);
	if (rc == SQLITE_OK)
		while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
			if (!identities_takes(identities, sqlite3_column_int64(statement, 0)))
				break;
			identities_load_row(identities, statement);
		}
	r = rc == SQLITE_ROW ? 0 : segment_error(db, rc);
	sqlite3_finalize(statement);
	sqlite3_close(db);
	return r;
}
