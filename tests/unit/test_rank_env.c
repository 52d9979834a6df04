/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of each launcher, nonsense in each number, cards, pods; and the parsers of cgroups and commands. */
#include "daemon/ranks/ranks_internal.h"

#include "tests/test.h"

/* A literal's own NUL ends its last entry. */
#define PARSE(block, env) rank_env_parse(block, sizeof(block), env)

TEST(test_launchers)
{
	static const struct {
		const char *block;
		size_t size;
		struct rank_env want;
	} cases[] = {
#define CASE(text, ...) {text, sizeof(text), __VA_ARGS__}
		CASE("A=1\0RANK=5\0WORLD_SIZE=16\0LOCAL_RANK=1\0LOCAL_WORLD_SIZE=4\0TORCHELASTIC_RUN_ID=run7",
			{5, 16, 1, 4, "torchrun", "run7", "", "", -1}),
		CASE("RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=0\0TORCHELASTIC_RUN_ID=none\0SLURM_JOB_ID=99",
			{0, 2, 0, -1, "torchrun", "99", "", "", -1}),
		CASE("RANK_ID=3\0RANK_SIZE=8\0DEVICE_ID=3", {3, 8, 3, -1, "ascend", "", "", "3", -1}),
		CASE("OMPI_COMM_WORLD_RANK=2\0OMPI_COMM_WORLD_SIZE=4\0OMPI_COMM_WORLD_LOCAL_RANK=0\0"
		     "OMPI_COMM_WORLD_LOCAL_SIZE=2\0PMIX_NAMESPACE=prterun-1",
			{2, 4, 0, 2, "openmpi", "prterun-1", "", "", -1}),
		CASE("PMI_RANK=1\0PMI_SIZE=2\0MPI_LOCALRANKID=1\0MPI_LOCALNRANKS=2",
			{1, 2, 1, 2, "pmi", "", "", "", -1}),
		CASE("SLURM_PROCID=7\0SLURM_NTASKS=8\0SLURM_LOCALID=3\0SLURM_JOB_ID=12",
			{7, 8, 3, -1, "slurm", "12", "", "", -1}),
		/* The agent's numbers win over the batch system's. */
		CASE("SLURM_PROCID=0\0SLURM_NTASKS=2\0RANK=9\0WORLD_SIZE=16",
			{9, 16, -1, -1, "torchrun", "", "", "", -1}),
#undef CASE
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct rank_env *want = &cases[i].want;
		struct rank_env env;

		rank_env_parse(cases[i].block, cases[i].size, &env);
		assert_string_equal(env.source, want->source);
		assert_int_equal(env.rank, want->rank);
		assert_int_equal(env.world_size, want->world_size);
		assert_int_equal(env.local_rank, want->local_rank);
		assert_int_equal(env.local_world_size, want->local_world_size);
		assert_string_equal(env.job, want->job);
		assert_string_equal(env.card, want->card);
		assert_int_equal(env.master_port, want->master_port);
	}
}

TEST(test_nonsense_is_not_there)
{
	static const char *const ranks[] = {
		"-1", "", "x", "1x", " 1", "+1", "0x1", "1000000", "99999999999999999999", "1.0"};
	struct rank_env env;
	char block[64];

	for (size_t i = 0; i < ARRAY_SIZE(ranks); i++) {
		int n = snprintf(block, sizeof(block), "RANK=%s", ranks[i]);

		rank_env_parse(block, (size_t)n, &env);
		assert_int_equal(env.rank, -1);
		assert_string_equal(env.source, "");
	}
	/* Not below its world: the next launcher's word counts. */
	PARSE("RANK=4\0WORLD_SIZE=4\0SLURM_PROCID=1\0SLURM_NTASKS=2", &env);
	assert_string_equal(env.source, "slurm");
	assert_int_equal(env.rank, 1);
	PARSE("RANK=3\0WORLD_SIZE=junk\0LOCAL_RANK=9\0LOCAL_WORLD_SIZE=8", &env);
	assert_int_equal(env.rank, 3);
	assert_int_equal(env.world_size, -1);
	assert_int_equal(env.local_rank, -1);
	assert_int_equal(env.local_world_size, -1);
	PARSE("RANK=0\0WORLD_SIZE=0", &env);
	assert_int_equal(env.world_size, -1);
	PARSE("XRANK=1\0RANK\0RANKS=2\0=\0", &env);
	assert_string_equal(env.source, "");
	rank_env_parse(NULL, 0, &env);
	assert_string_equal(env.source, "");
}

TEST(test_first_of_two_counts)
{
	struct rank_env env;

	PARSE("RANK=1\0RANK=2", &env);
	assert_int_equal(env.rank, 1);
}

TEST(test_cards)
{
	struct rank_env env;

	PARSE("RANK=1\0WORLD_SIZE=4\0LOCAL_RANK=1\0CUDA_VISIBLE_DEVICES=4,6,7", &env);
	assert_string_equal(env.card, "6");
	PARSE("RANK=1\0WORLD_SIZE=4\0LOCAL_RANK=2\0CUDA_VISIBLE_DEVICES=4,6,7", &env);
	assert_string_equal(env.card, "7");
	/* A list with one entry for each process: as given. */
	PARSE("RANK=3\0WORLD_SIZE=4\0LOCAL_RANK=3\0CUDA_VISIBLE_DEVICES=5", &env);
	assert_string_equal(env.card, "5");
	PARSE("CUDA_VISIBLE_DEVICES=GPU-1,GPU-2", &env);
	assert_string_equal(env.card, "GPU-1,GPU-2");
	PARSE("ASCEND_DEVICE_ID=6\0DEVICE_ID=1", &env);
	assert_string_equal(env.card, "6");
	PARSE("LOCAL_RANK=0\0RANK=0\0ASCEND_RT_VISIBLE_DEVICES=2,3", &env);
	assert_string_equal(env.card, "2");
}

TEST(test_pods_and_texts)
{
	char block[400] = "TORCHELASTIC_RUN_ID=";
	struct rank_env env;

	PARSE("HOSTNAME=node1", &env);
	assert_string_equal(env.pod, "");
	PARSE("HOSTNAME=train-0\0KUBERNETES_SERVICE_HOST=10.0.0.1", &env);
	assert_string_equal(env.pod, "train-0");
	PARSE("HOSTNAME=h\0KUBERNETES_SERVICE_HOST=10.0.0.1\0POD_NAME=p\nq", &env);
	assert_string_equal(env.pod, "p?q");
	memset(block + strlen(block), 'j', 200);
	memcpy(block + 221, "RANK=1", 7);
	rank_env_parse(block, sizeof(block), &env);
	assert_int_equal(env.rank, 1);
	assert_int_equal(strlen(env.job), sizeof(env.job) - 1);
}

TEST(test_where_they_meet)
{
	struct rank_env env;

	PARSE("RANK=1\0MASTER_PORT=29500", &env);
	assert_int_equal(env.master_port, 29500);
	PARSE("RANK=1\0MASTER_PORT=65536", &env);
	assert_int_equal(env.master_port, -1);
	PARSE("RANK=1\0MASTER_PORT=0", &env);
	assert_int_equal(env.master_port, -1);
	PARSE("RANK=1", &env);
	assert_int_equal(env.master_port, -1);
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NODE_ID "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define UID_DASHES "11112222-3333-4444-5555-666677778888"
#define UID_SCORES "11112222_3333_4444_5555_666677778888"

TEST(test_cgroups)
{
	static const struct {
		const char *text, *path, *container, *pod_uid;
	} cases[] = {
		{"0::/\n", "/", "", ""},
		{"0::/system.slice/docker-" ID ".scope\n", "/system.slice/docker-" ID ".scope", ID, ""},
		{"12:cpu:/docker/" ID "\n1:name=systemd:/\n", "/docker/" ID, ID, ""},
		{"0::/user.slice/libpod-" ID ".scope/container\n", "/user.slice/libpod-" ID ".scope/container", ID, ""},
		{"0::/kubepods/besteffort/pod11112222-3333-4444-5555-666677778888/" ID "\n",
			"/kubepods/besteffort/pod11112222-3333-4444-5555-666677778888/" ID, ID,
			"11112222-3333-4444-5555-666677778888"},
		{"0::/kubepods.slice/kubepods-pod11112222_3333_4444_5555_666677778888.slice/cri-containerd-" ID
		 ".scope",
			"/kubepods.slice/kubepods-pod11112222_3333_4444_5555_666677778888.slice/cri-containerd-" ID
			".scope",
			ID, "11112222-3333-4444-5555-666677778888"},
		/* As the runtimes form them: CRI-O with systemd's groups and with its own, containerd on version 1, a
		 * node that is a container itself (kind), and as seen from a group namespace of a container. */
		{"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_SCORES ".slice/crio-" ID
		 ".scope",
			"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_SCORES ".slice/crio-" ID
			".scope",
			ID, UID_DASHES},
		{"0::/kubepods.slice/kubepods-pod" UID_SCORES ".slice/crio-" ID ".scope/container",
			"/kubepods.slice/kubepods-pod" UID_SCORES ".slice/crio-" ID ".scope/container", ID, UID_DASHES},
		{"0::/kubepods/burstable/pod" UID_DASHES "/crio-" ID, "/kubepods/burstable/pod" UID_DASHES "/crio-" ID,
			ID, UID_DASHES},
		{"11:memory:/kubepods/pod" UID_DASHES "/" ID
		 "\n10:cpuset:/\n1:name=systemd:/system.slice/containerd.service\n",
			"/kubepods/pod" UID_DASHES "/" ID, ID, UID_DASHES},
		{"12:pids:/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_SCORES
		 ".slice/cri-containerd-" ID ".scope\n0::/\n",
			"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_SCORES
			".slice/cri-containerd-" ID ".scope",
			ID, UID_DASHES},
		{"11:cpu:/system.slice/containerd.service/kubepods-burstable-pod" UID_SCORES ".slice:cri-containerd:" ID
		 "\n",
			"/system.slice/containerd.service/kubepods-burstable-pod" UID_SCORES
			".slice:cri-containerd:" ID,
			ID, UID_DASHES},
		{"0::/docker/" NODE_ID "/kubepods-pod" UID_SCORES ".slice/cri-containerd-" ID ".scope",
			"/docker/" NODE_ID "/kubepods-pod" UID_SCORES ".slice/cri-containerd-" ID ".scope", ID,
			UID_DASHES},
		{"0::/../../kubepods-pod" UID_SCORES ".slice/cri-containerd-" ID ".scope",
			"/../../kubepods-pod" UID_SCORES ".slice/cri-containerd-" ID ".scope", ID, UID_DASHES},
		{"0::/k:cri-containerd:" ID, "/k:cri-containerd:" ID, ID, ""},
		{"0::/f" ID "\n", "/f" ID, "", ""}, /* 65 digits are no id */
		{"garbage\n:\n", "", "", ""},
		{"0::/podcast/pod\n", "/podcast/pod", "", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rank_cgroup cgroup;

		rank_cgroup_parse(cases[i].text, &cgroup);
		assert_string_equal(cgroup.path, cases[i].path);
		assert_string_equal(cgroup.container, cases[i].container);
		assert_string_equal(cgroup.pod_uid, cases[i].pod_uid);
	}
}

TEST(test_commands)
{
	static const struct {
		const char *block;
		size_t size;
		bool launcher;
		const char *joined;
	} cases[] = {
#define CASE(text, launcher, joined) {text, sizeof(text), launcher, joined}
		CASE("/usr/bin/torchrun\0train.py", true, "/usr/bin/torchrun train.py"),
		CASE("python3\0/usr/bin/torchrun\0x", true, "python3 /usr/bin/torchrun x"),
		CASE("python\0-u\0-W\0ignore\0-m\0torch.distributed.run", true,
			"python -u -W ignore -m torch.distributed.run"),
		CASE("python3.11\0train.py\0torchrun", false, "python3.11 train.py torchrun"),
		CASE("python\0-c\0import torchrun", false, "python -c import torchrun"),
		CASE("accelerate\0launch\0t.py", true, "accelerate launch t.py"),
		CASE("accelerate\0config", false, "accelerate config"),
		CASE("mpirun\0-n\0"
		     "2",
			true, "mpirun -n 2"),
		CASE("python\0-m", false, "python -m"),
		CASE("", false, ""),
#undef CASE
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char joined[64];

		assert_int_equal(rank_command_is_launcher(cases[i].block, cases[i].size), cases[i].launcher);
		rank_command_join(cases[i].block, cases[i].size, joined, sizeof(joined));
		assert_string_equal(joined, cases[i].joined);
	}
	assert_true(rank_command_is_interpreter("/opt/conda/bin/python3.10"));
	assert_false(rank_command_is_interpreter("/usr/bin/true"));
}

TEST_MAIN(NULL, NULL)
