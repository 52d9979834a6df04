/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets in command lines and in values of variables: masked in every form that is known, and nothing else is. */
#include "daemon/ranks/ranks_internal.h"

#include "tests/test.h"

TEST(commands)
{
	static const struct {
		const char *block;
		size_t size;
		const char *joined;
	} cases[] = {
#define CASE(text, joined) {text, sizeof(text), joined}
		/* What tools take secrets by. */
		CASE("train.py\0--api-key\0s3cr3t\0--lr\0"
		     "1",
			"train.py --api-key *** --lr 1"),
		CASE("train.py\0--api-key=s3cr3t\0--lr=1", "train.py --api-key=*** --lr=1"),
		CASE("train.py\0--hf_token\0s3cr3t", "train.py --hf_token ***"),
		CASE("x\0-token\0s3cr3t", "x -token ***"),
		CASE("x\0--wandb.apiKey\0s3cr3t", "x --wandb.apiKey ***"),
		CASE("x\0password=s3cr3t\0next", "x password=*** next"),
		CASE("x\0PGPASSWORD=s3cr3t", "x PGPASSWORD=***"),
		CASE("x\0+login.secret_access_key=s3cr3t", "x +login.secret_access_key=***"),
		CASE("env\0AWS_SECRET_ACCESS_KEY=abc/def+ghi\0python", "env AWS_SECRET_ACCESS_KEY=*** python"),
		CASE("sh\0-c\0export TOKEN=s3cr3t; run --db-password s3cr3t -v",
			"sh -c export TOKEN=***; run --db-password *** -v"),
		CASE("x\0--config\0{\"api_key\": \"s3 cr3t\", \"lr\": 1}",
			"x --config {\"api_key\": ***\", \"lr\": 1}"),
		CASE("x\0--header\0Authorization: Bearer abc.def-ghi", "x --header Authorization: ***"),
		CASE("x\0https://user:s3cr3t@host/p?q=1", "x https://user:***@host/p?q=1"),
		CASE("x\0postgresql://u:p@ss@db:5432/x", "x postgresql://u:***@db:5432/x"),
		CASE("x\0https://0123456789abcdef0123@host/", "x https://***@host/"),
		CASE("x\0https://h/?a=1&token=s3cr3t&b=2", "x https://h/?a=1&token=***&b=2"),
		CASE("x\0AKIAIOSFODNN7EXAMPLE", "x ***"),
		CASE("x\0--id\0ghp_0123456789abcdefghij", "x --id ***"),
		CASE("x\0eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.sig", "x ***"),
		/* A value that begins with a dash is the next option. */
		CASE("x\0--auth\0--verbose", "x --auth --verbose"),
		CASE("x\0--token", "x --token"),
		CASE("x\0token=", "x token="),
		/* What a training is given all the time. */
		CASE("train.py\0--tokenizer\0gpt2\0--max-tokens\0"
		     "2048",
			"train.py --tokenizer gpt2 --max-tokens 2048"),
		CASE("x\0--token-dim=512\0--num_tokens=9\0--keys-per-head=4",
			"x --token-dim=512 --num_tokens=9 --keys-per-head=4"),
		CASE("x\0--master_addr=10.0.0.1:29500\0--rdzv=c10d://host:29500",
			"x --master_addr=10.0.0.1:29500 --rdzv=c10d://host:29500"),
		CASE("x\0ssh://git@host/x.git\0user@host", "x ssh://git@host/x.git user@host"),
		CASE("x\0--author=me\0--monkey\0business\0passive=1", "x --author=me --monkey business passive=1"),
		CASE("python\0-c\0import torch; a = {'k': 1}", "python -c import torch; a = {'k': 1}"),
#undef CASE
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char joined[128];

		rank_command_join(cases[i].block, cases[i].size, joined, sizeof(joined));
		assert_string_equal(joined, cases[i].joined);
	}
}

/* A secret that is longer than what is kept does not appear by being cut. */
TEST(truncated)
{
	char block[4096], joined[32];

	memset(block, 's', sizeof(block));
	memcpy(block, "x\0--token=", 10);
	rank_command_join(block, sizeof(block), joined, sizeof(joined));
	assert_string_equal(joined, "x --token=***");
	memcpy(block, "x\0--abcdefghijklmnop-secret-token\0", 34);
	rank_command_join(block, sizeof(block), joined, sizeof(joined));
	assert_int_equal(strlen(joined), sizeof(joined) - 1);
	assert_null(strstr(joined, "ss"));
}

TEST(variables)
{
	struct rank_env env;
	static const char block[] =
		"RANK=0\0WORLD_SIZE=1\0JOB_NAME=https://me:s3cr3t@forge/x\0POD_NAME=AKIAIOSFODNN7EXAMPLE";

	rank_env_parse(block, sizeof(block), &env);
	assert_string_equal(env.job, "https://me:***@forge/x");
	assert_string_equal(env.pod, "***");
}

TEST_MAIN(NULL, NULL)
