/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ranks/rank_budget.h"

#include <inttypes.h>

#include "daemon/base/log.h"
#include "daemon/core/context.h"
#include "daemon/core/limits.h"

struct account {
	int64_t instance; /* 0: none */
	uint32_t uid;
	uint64_t part[RANK_BUDGET_PARTS], bytes;
	uint64_t frozen_until_ns; /* 0: never frozen */
	uint64_t refused;
};

struct rank_budget {
	struct context *context;
	uint64_t bytes, bytes_max, refused;
	struct {
		void (*shed)(void *arg, uint32_t slot);
		void *arg;
	} part[RANK_BUDGET_PARTS];
	bool shedding;
	size_t slots;
	struct account slot[];
};

static void rank_budget_clear(struct rank_budget *budget, struct account *account)
{
	budget->bytes -= account->bytes;
	memset(account->part, 0, sizeof(account->part));
	account->bytes = 0;
}

static struct account *rank_budget_account(const struct rank_budget *budget, const struct rank *rank)
{
	struct account *account;

	if (!budget || rank->slot >= budget->slots)
		return NULL;
	account = (struct account *)&budget->slot[rank->slot];
	return account->instance == rank->instance ? account : NULL;
}

static struct account *rank_budget_open(struct rank_budget *budget, const struct rank *rank)
{
	struct account *account = rank_budget_account(budget, rank);

	if (account || !budget || rank->slot >= budget->slots)
		return account;
	account = &budget->slot[rank->slot];
	rank_budget_clear(budget, account);
	*account = (struct account){.instance = rank->instance, .uid = rank->uid};
	return account;
}

static void rank_budget_on_rank(void *arg, const struct rank *rank, enum rank_change change)
{
	struct rank_budget *budget = arg;
	struct account *account = rank_budget_account(budget, rank);

	if (!account || (change != RANK_ENDED && rank->role == RANK_ROLE_RANK))
		return;
	/* What it refused remains until another rank has the slot: observers after this one store it. */
	rank_budget_clear(budget, account);
	account->frozen_until_ns = 0;
}

int rank_budget_new(struct context *context, uint64_t bytes_max, struct rank_budget **ret)
{
	size_t slots = context->config.ranks_max;
	struct rank_budget *budget = calloc(1, sizeof(*budget) + slots * sizeof(budget->slot[0]));
	int r;

	if (!budget)
		return -ENOMEM;
	budget->context = context;
	budget->slots = slots;
	budget->bytes_max = bytes_max ? bytes_max : (uint64_t)LIMIT_RANK_STATE_MIB << 20;
	r = ranks_observe(context->ranks, rank_budget_on_rank, budget);
	if (r < 0) {
		free(budget);
		return r;
	}
	*ret = budget;
	return 0;
}

struct rank_budget *rank_budget_free(struct rank_budget *budget)
{
	free(budget);
	return NULL;
}

void rank_budget_part(
	struct rank_budget *budget, enum rank_budget_part part, void (*shed)(void *arg, uint32_t slot), void *arg)
{
	if (!budget)
		return;
	budget->part[part].shed = shed;
	budget->part[part].arg = arg;
}

static bool is_frozen(const struct account *account)
{
	return account->frozen_until_ns && monotonic_ns() < account->frozen_until_ns;
}

bool rank_budget_admits(struct rank_budget *budget, const struct rank *rank)
{
	struct account *account = rank_budget_account(budget, rank);

	if (!account || !account->frozen_until_ns || !is_frozen(account))
		return true;
	account->refused++;
	budget->refused++;
	return false;
}

bool rank_budget_is_frozen(const struct rank_budget *budget, const struct rank *rank)
{
	const struct account *account = rank_budget_account(budget, rank);

	return account && is_frozen(account);
}

bool rank_budget_was_frozen(const struct rank_budget *budget, const struct rank *rank)
{
	const struct account *account = rank_budget_account(budget, rank);

	return account && account->frozen_until_ns;
}

static uint64_t bytes_of_user(const struct rank_budget *budget, uint32_t uid)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < budget->slots; i++)
		if (budget->slot[i].instance && budget->slot[i].uid == uid)
			bytes += budget->slot[i].bytes;
	return bytes;
}

/* The largest account of the user with the most bytes; NULL: all are empty. */
static struct account *rank_budget_greediest(struct rank_budget *budget)
{
	struct account *best = NULL;
	uint64_t most = 0;

	for (size_t i = 0; i < budget->slots; i++) {
		struct account *account = &budget->slot[i];
		uint64_t bytes;

		if (!account->bytes)
			continue;
		if (best && account->uid == best->uid) {
			if (account->bytes > best->bytes)
				best = account;
			continue;
		}
		bytes = bytes_of_user(budget, account->uid);
		if (bytes <= most)
			continue;
		most = bytes;
		best = account;
	}
	return best;
}

static void rank_budget_freeze(struct rank_budget *budget, struct account *account)
{
	uint32_t slot = (uint32_t)(account - budget->slot);
	uint64_t bytes = account->bytes;

	account->frozen_until_ns = monotonic_ns() + RANK_BUDGET_FROZEN_NS;
	for (size_t i = 0; i < RANK_BUDGET_PARTS; i++)
		if (budget->part[i].shed)
			budget->part[i].shed(budget->part[i].arg, slot);
	rank_budget_clear(budget, account);
	ranks_suspect(budget->context->ranks, account->uid, "its ranks need more memory of the daemon than their part");
	log_debug("ranks",
		"the state of the rank in slot %u, %" PRIu64 " bytes, is dropped: all ranks need more than %" PRIu64,
		slot, bytes, budget->bytes_max);
}

void rank_budget_set(struct rank_budget *budget, enum rank_budget_part part, const struct rank *rank, uint64_t bytes)
{
	struct account *account = rank_budget_account(budget, rank);

	if (!account && bytes)
		account = rank_budget_open(budget, rank);
	if (!account || account->part[part] == bytes)
		return;
	budget->bytes += bytes - account->part[part];
	account->bytes += bytes - account->part[part];
	account->part[part] = bytes;
	if (budget->shedding)
		return;
	budget->shedding = true;
	while (budget->bytes > budget->bytes_max && (account = rank_budget_greediest(budget)))
		rank_budget_freeze(budget, account);
	budget->shedding = false;
}

void rank_budget_use(const struct rank_budget *budget, const struct rank *rank, struct rank_budget_use *ret)
{
	const struct account *account = rank_budget_account(budget, rank);

	*ret = (struct rank_budget_use){0};
	if (account)
		*ret = (struct rank_budget_use){account->bytes, account->refused, is_frozen(account)};
}

uint64_t rank_budget_bytes(const struct rank_budget *budget)
{
	return budget ? budget->bytes : 0;
}

uint64_t rank_budget_bytes_max(const struct rank_budget *budget)
{
	return budget ? budget->bytes_max : 0;
}

void rank_budget_counts(const struct rank_budget *budget, uint32_t *ret_frozen, uint64_t *ret_refused)
{
	*ret_frozen = 0;
	*ret_refused = budget ? budget->refused : 0;
	for (size_t i = 0; budget && i < budget->slots; i++)
		*ret_frozen += budget->slot[i].instance && is_frozen(&budget->slot[i]);
}
