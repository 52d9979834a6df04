#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One of each extension of docs/extending.md, added to a copy of the tree: it touches as many files as the document says. With
# --build also: it builds, it works, the other checks accept it (tests/builds.sh). places.sh SOURCE BUILD [--build]
set -euo pipefail
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree build=$work/build
failed=0
complain() {
	echo "$1"
	failed=1
}

# The sources as they are here, with what is not committed, and of an old date: what is touched later is newer.
mkdir "$tree"
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
	git ls-files -coz --exclude-standard | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done
else
	find . \( -path './build*' -o -path ./.git \) -prune -o -type f -print0
fi | tar -c --mtime=2000-01-01 --null -T - | tar -x -C "$tree"

# add NAME FUNCTION: the function changes the copy; the files it touches are as many as the row of NAME says in
# docs/extending.md. The build writes docs/schema.md later (schema-md), so it does not count.
add() {
	local name=$1 expected count
	expected=$(sed -n "s/^| \[$name\](.*| \([0-9]*\) |\$/\1/p" docs/extending.md)
	(cd "$tree" && "$2" && find . -type f -newermt 2001-01-01 -printf '  %P\n' -exec touch -d 2000-01-01 {} + | sort >"$work/touched")
	count=$(wc -l <"$work/touched")
	echo "$name: $count places"
	cat "$work/touched"
	[ "$count" = "$expected" ] || complain "$name: docs/extending.md says ${expected:-nothing}"
}

# insert FILE BEFORE: stdin goes before the first line that matches.
insert() {
	local line
	line=$(grep -nE -m 1 -- "$2" "$1" | cut -d: -f1)
	[ -n "$line" ] || { echo "$1 has no line '$2'" >&2 && exit 1; }
	sed -i "$((line - 1))r /dev/stdin" "$1"
}

probed_function() {
	cat >>bpf/probes.d/python.conf <<-'END'

		[probe "places"]
		level = L0
		library = libc.so.6
		symbol = fsync
		edge = span
		return = probe
		stage = places
		help = a file is forced to disk
	END
}

collector() {
	local number
	number=$(sed -n 's/^\tRT_KIND_[A-Z_]* = \([0-9]*\),.*/\1/p' bpf/event.h | tail -n 1)
	insert bpf/event.h 'RT_KIND_MAX$' <<<"	RT_KIND_PLACES = $((number + 1)), /* places.h: a process was created */"
	echo 'COLLECTOR(places)' >>daemon/collect/collectors.def
	cat >bpf/places.h <<-'END'
		/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
		/* Payload of the collector of forks. */
		#ifndef RANKTRACE_PLACES_H
		#define RANKTRACE_PLACES_H

		#include "bpf/event.h"

		struct rt_places_event {
			struct rt_event event; /* kind RT_KIND_PLACES */
			uint64_t forks;
		};

		#endif
	END
	cat >bpf/places.bpf.c <<-'END'
		/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
		/* One record per fork. */
		#include "bpf/probe.bpf.h"
		#include "bpf/places.h"

		SEC("tp_btf/sched_process_fork")
		int places_fork(uint64_t *ctx)
		{
			struct rt_places_event *record = reserve_event(RT_KIND_PLACES, sizeof(*record));

			if (!record)
				return 0;
			record->forks = ctx[1] != 0; /* the child */
			submit_event(record);
			return 0;
		}

		char LICENSE[] SEC("license") = "Dual BSD/GPL";
	END
	cat >daemon/collect/collect_places.c <<-'END'
		/* SPDX-License-Identifier: Apache-2.0 */
		/* Counts forks. */
		#include "bpf/places.h"
		#include "daemon/collect/collector.h"
		#include "daemon/core/context.h"
		#include "daemon/kernel/kernel.h"
		#include "places.skel.h"

		struct places {
			struct places_bpf *skeleton;
			uint64_t forks;
		};

		static void places_close(void *state)
		{
			struct places *places = state;

			places_bpf__destroy(places->skeleton);
			free(places);
		}

		static int places_open(struct context *context, void **ret_state)
		{
			struct places *places = calloc(1, sizeof(*places));

			(void)context;
			if (!places)
				return -ENOMEM;
			places->skeleton = places_bpf__open();
			if (!places->skeleton) {
				free(places);
				return -errno;
			}
			*ret_state = places;
			return 0;
		}

		static void places_event(void *state, const struct rt_event *event, size_t size_bytes)
		{
			struct places *places = state;

			if (size_bytes >= sizeof(struct rt_places_event))
				places->forks += ((const struct rt_places_event *)event)->forks;
		}

		static void places_status(void *state, struct collector_status *ret)
		{
			ret->events = ((struct places *)state)->forks;
		}

		const struct collector collector_places = {
			.name = "places",
			.summary = "forks",
			.levels = LEVEL_BIT(LEVEL_L3),
			.kinds = 1u << RT_KIND_PLACES,
			.open = places_open,
			.event = places_event,
			.status = places_status,
			.close = places_close,
		};
	END
}

verb() {
	insert ctl/verbs.def '^VERB\(help' <<-'END'
		VERB(places, "", COMPLETE_NOTHING, 0, 0, "show how many places an extension touches", "", EXITS,
			OPTION("of", "FILE", "count the places of FILE") JSON)
	END
	insert man/tracectl.1 '^\.Ss help' <<-'END'
		.Ss places
		.Bl -hang -width Ds
		.It Nm Cm places
		.El
		.Pp
		Show how many places an extension touches.
		.Bl -tag -width Ds
		.It Fl -of Ar FILE
		Count the places of
		.Ar FILE .
		.El
	END
	cat >ctl/cmd_places.c <<-'END'
		/* SPDX-License-Identifier: Apache-2.0 */
		/* tracectl places. */
		#include "ctl/tracectl.h"

		int cmd_places(const struct command *command)
		{
			puts(command->json ? "{\"places\": 3}" : "places: 3");
			return EXIT_DONE;
		}
	END
}

cause() {
	cat >>analyzers/finding/causes.def <<-'END'
		FINDING_CAUSE(PLACES, places, "too many places", "an extension touches too many files",
			"", "", "", NONE, false,
			"mend the design")
	END
}

column() {
	local version
	version=$(sed -n 's/^#define SCHEMA_VERSION //p' analyzers/store/schema.h)
	sed -i "/^TABLE(OFFCPU_SUM, /,/^TABLE_END/s|^COLUMN(instance, .*|&\nCOLUMN(places, INT, NONE, OPTIONAL, $version, \"places of an extension\")|" \
		analyzers/store/schema.def
	sed -i 's/const struct row_offcpu_sums row = {/&\n\t\t.places = field_int(3),/' daemon/collect/collect_sched.c
}

# Before: none of them is there, so that what follows proves something.
[ ! -e ctl/cmd_places.c ] && ! grep -rqw places bpf/probes.d daemon/collect analyzers/finding/causes.def || complain "places is in the tree"
add 'a probed function' probed_function
add 'a collector' collector
add 'a verb' verb
add 'a cause' cause
add 'a column' column

[ "${3:-}" = --build ] || exit "$failed"
export CCACHE_BASEDIR=$work # the same paths in each run
launcher=$(sed -n 's/^CMAKE_C_COMPILER_LAUNCHER:[A-Z]*=//p' "$2/CMakeCache.txt")
cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O0 -DRANKTRACE_WERROR=ON \
	-DRANKTRACE_TESTS=OFF ${launcher:+"-DCMAKE_C_COMPILER_LAUNCHER=$launcher"} >"$work/log" 2>&1 &&
	ninja -C "$build" all schema-md >"$work/log" 2>&1 || {
	tail -n 40 "$work/log"
	exit 1
}

# proof WHAT PATTERN COMMAND...: its output has a line that matches.
proof() {
	local what=$1 pattern=$2 output
	shift 2
	output=$("$@" 2>&1) || true
	grep -qE -- "$pattern" <<<"$output" || complain "$what: no '$pattern' in the output of ${*#"$work"/}: $(tail -n 3 <<<"$output")"
}
export RANKTRACE_LIBEXEC=$build/libexec/ranktrace RANKTRACE_SOCKET=/nonexistent TZ=UTC
tracectl=$build/ctl/tracectl

# The daemon accepts the table with the probe, and no longer when a key of it is wrong.
printf '[daemon]\nprobes_dir = %s\n' "$work/none" >"$work/ranktrace.conf"
check_config=("$build/daemon/ranktraced" --check-config --config "$work/ranktrace.conf")
"${check_config[@]}" 2>"$work/log" || complain "a probed function: $(cat "$work/log")"
sed -i 's/^stage = places$/stages = places/' "$tree/bpf/probes.d/python.conf"
proof 'a probed function' 'python.conf:[0-9]+: unknown key' "${check_config[@]}"
# An object of the library is linked if the table of collectors names it.
proof 'a collector' ' collector_places$' nm "$build/daemon/ranktraced"
proof 'a verb' '^  places +show how many' "$tracectl" help
proof 'a verb' '--of FILE +count' "$tracectl" places -h
proof 'a verb' '^places: 3$' "$tracectl" places
proof 'a verb' '^places$' "$tracectl" complete pl
# A finding of that cause, in a store of an earlier version that lacks the column.
tar -xJf tests/fixtures/stores/training-v1.tar.xz -C "$work"
python3 - "$work"/training-v1/db/*.db <<'PY'
import sqlite3
import sys

for path in sys.argv[1:]:
    db = sqlite3.connect(path)
    db.execute("UPDATE texts SET text = 'places' WHERE text = 'dataloader'")
    db.commit()
PY
store=(--state-dir "$work/training-v1")
window=(--since '2026-11-22 00:00' --until '2026-11-22 23:00')
proof 'a cause' 'too many places' "$tracectl" report "${store[@]}" "${window[@]}"
proof 'a cause' 'mend the design' "$tracectl" findings "${store[@]}" "${window[@]:0:2}" --verbose
proof 'a cause' '^\.It Cm places$' cat "$build/man/ranktraced.8"
proof 'a column' '"places"' "$tracectl" query --tables --json
proof 'a column' '^0' "$tracectl" query "${store[@]}" --csv 'select count(places) from offcpu_sums'
proof 'a column' 'places of an extension' cat "$tree/docs/schema.md"

# No other place is asked for.
for check in docs fields layering levels man measured names options schema; do
	"$tree/tests/check/$check.sh" "$tree" "$build" >"$work/log" 2>&1 || {
		[ $? -eq 77 ] && continue
		complain "check.$check does not accept them:"
		cat "$work/log"
	}
done
exit "$failed"
