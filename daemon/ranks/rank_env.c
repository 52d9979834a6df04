/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environment variables by which launchers pass a process its rank, as one table, first match first. To support another
 * launcher, add a row. The block is not trusted: numbers are parsed strictly, texts truncated, made printable and freed
 * of secrets.
 */
#include "daemon/base/procfs.h"
#include "daemon/ranks/ranks_internal.h"

#define JOBS_MAX 4

/* Agents first: inside a SLURM or MPI job the agent numbers the training processes. */
static const struct launcher {
	const char *source;
	const char *rank;
	const char *world_size;
	const char *local_rank;
	const char *local_world_size;
	const char *job[JOBS_MAX];
} launchers[] = {
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", {"TORCHELASTIC_RUN_ID"}},
	{"ascend", "RANK_ID", "RANK_SIZE", "DEVICE_ID", NULL, {NULL}},
	{"horovod", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", {NULL}},
	{"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
		"OMPI_COMM_WORLD_LOCAL_SIZE", {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"}},
	{"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {"PMI_JOBID"}},
	{"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, {"SLURM_JOB_ID"}},
};

/* Used if the launcher names no job. torchrun's default job is "none". */
static const char *const jobs[] = {"SLURM_JOB_ID", "ENV_ARGO_WORKFLOW_NAME", "ARGO_WORKFLOW_NAME", "KUBEFLOW_JOB_NAME",
	"JOB_NAME", "JOB_ID", "PBS_JOBID", "LSB_JOBID"};

/* Lists of visible cards, indexed by local rank; then single ids. */
static const char *const card_lists[] = {
	"CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"};
static const char *const card_ids[] = {"ASCEND_DEVICE_ID", "DEVICE_ID"};

struct block {
	const char *text;
	size_t size_bytes;
};

/* Value of a variable, not terminated; the first one counts, as for getenv. Empty counts as absent. */
static const char *rank_env_find(const struct block *block, const char *name, size_t *ret_length)
{
	size_t name_length = strlen(name), at = 0;

	while (at < block->size_bytes) {
		const char *entry = block->text + at;
		size_t length = strnlen(entry, block->size_bytes - at);

		if (length > name_length && entry[name_length] == '=' && memcmp(entry, name, name_length) == 0) {
			*ret_length = length - name_length - 1;
			return *ret_length ? entry + name_length + 1 : NULL;
		}
		at += length + 1;
	}
	return NULL;
}

/* Digits only, within the limit; -1 otherwise. */
static int32_t find_number(const struct block *block, const char *name)
{
	size_t length;
	const char *text = name ? rank_env_find(block, name, &length) : NULL;
	int32_t value = 0;

	if (!text || length > 7)
		return -1;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		value = value * 10 + (text[i] - '0');
	}
	return value <= RANK_ENV_NUMBER_MAX ? value : -1;
}

static void rank_env_copy_text(char *dst, size_t size, const char *text, size_t length)
{
	rank_secrets_mask(text, length, dst, size);
	procfs_printable(dst);
}

static bool find_text(const struct block *block, const char *name, char *dst, size_t size)
{
	size_t length;
	const char *text = rank_env_find(block, name, &length);

	if (text)
		rank_env_copy_text(dst, size, text, length);
	return text != NULL;
}

/* A number must be below its count, if both are known; otherwise the pair is invalid. */
static bool pair_is_sound(int32_t number, int32_t *count)
{
	if (*count == 0)
		*count = -1;
	return number >= 0 && number < RANK_ENV_NUMBER_MAX && (*count < 0 || number < *count);
}

static bool try_launcher(const struct block *block, const struct launcher *launcher, struct rank_env *env)
{
	int32_t rank = find_number(block, launcher->rank), world = find_number(block, launcher->world_size);
	int32_t local = find_number(block, launcher->local_rank);
	int32_t local_world = find_number(block, launcher->local_world_size);

	if (!pair_is_sound(rank, &world))
		return false;
	if (local >= 0 && !pair_is_sound(local, &local_world))
		local = local_world = -1;
	(void)copy_text(env->source, sizeof(env->source), launcher->source);
	env->rank = rank;
	env->world_size = world;
	env->local_rank = local;
	env->local_world_size = local_world == 0 ? -1 : local_world;
	for (size_t i = 0; i < JOBS_MAX && launcher->job[i]; i++)
		if (find_text(block, launcher->job[i], env->job, sizeof(env->job)) && !streq(env->job, "none"))
			return true;
	env->job[0] = 0;
	return true;
}

/* The local rank's entry, if the list has one for each; else the whole list. */
static void take_card(const char *list, size_t length, int32_t local_rank, char *card, size_t size)
{
	const char *end = list + length, *entry = list;

	for (int32_t i = 0; local_rank >= 0 && i < local_rank && entry; i++) {
		entry = memchr(entry, ',', (size_t)(end - entry));
		entry = entry ? entry + 1 : NULL;
	}
	if (local_rank < 0 || !entry || entry == end) {
		rank_env_copy_text(card, size, list, length);
		return;
	}
	const char *comma = memchr(entry, ',', (size_t)(end - entry));

	rank_env_copy_text(card, size, entry, (size_t)((comma ? comma : end) - entry));
}

static void find_card(const struct block *block, struct rank_env *env)
{
	size_t length;

	for (size_t i = 0; i < ARRAY_SIZE(card_lists); i++) {
		const char *list = rank_env_find(block, card_lists[i], &length);

		if (list) {
			take_card(list, length, env->local_rank, env->card, sizeof(env->card));
			return;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(card_ids); i++)
		if (find_text(block, card_ids[i], env->card, sizeof(env->card)))
			return;
}

void rank_env_parse(const char *text, size_t size_bytes, struct rank_env *ret)
{
	const struct block block = {text, size_bytes};
	struct rank_env env = {
		.rank = -1, .world_size = -1, .local_rank = -1, .local_world_size = -1, .master_port = -1};
	size_t length;

	for (size_t i = 0; i < ARRAY_SIZE(launchers); i++)
		if (try_launcher(&block, &launchers[i], &env))
			break;
	for (size_t i = 0; i < ARRAY_SIZE(jobs) && !env.job[0]; i++)
		(void)find_text(&block, jobs[i], env.job, sizeof(env.job));
	env.master_port = find_number(&block, "MASTER_PORT");
	if (env.master_port == 0 || env.master_port > UINT16_MAX)
		env.master_port = -1;
	/* In a pod, the host name is the pod's. */
	if (!find_text(&block, "POD_NAME", env.pod, sizeof(env.pod)) &&
		rank_env_find(&block, "KUBERNETES_SERVICE_HOST", &length))
		(void)find_text(&block, "HOSTNAME", env.pod, sizeof(env.pod));
	find_card(&block, &env);
	*ret = env;
}
