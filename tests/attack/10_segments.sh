#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A folder of stores, as on a shared file system, in which another user has put segments whose views, tables and pages do not
# end. report, analyze, timeline and query end, name the files that they leave out, and have all rows of the genuine store.
source "$(dirname "$0")/lib.sh"

attack_daemon_start
attack_victim_start
sleep 3
attack_victim_exact
attack_daemon_alive
e2e_stop
steps=$(sed 's/.*"steps": \([0-9]*\).*/\1/' "$work/victim/steps.json")

install -d -o "$attacker_uid" "$attacker_dir/genuine"
for file in "$state"/db/*.db; do install -o "$attacker_uid" -m 600 "$file" "$attacker_dir/genuine/"; done
attack_install "$source_dir/tests/attack/segments.py"
attacker "$python" "$work/bin/segments.py" "$attacker_dir" || fail "the segments were not made"

# ends NAME COMMAND...: within a minute; $work/NAME.out and .err have what it wrote.
ends() {
	local name=$1 started=$SECONDS code=0
	shift
	timeout 60 "$@" >"$work/$name.out" 2>"$work/$name.err" || code=$?
	[ "$code" -ne 124 ] || fail "$name does not end"
	[ "$code" -eq 0 ] || { cat "$work/$name.err" >&2; fail "$name ends with $code"; }
	echo "$name: $((SECONDS - started)) s, $(cat "$work/$name".{err,out} | grep -ac 'its rows are left out') files left out"
}
# names_left_out NAME TRICK...: warnings, or the report itself, name files of these.
names_left_out() {
	local trick name=$1
	shift
	for trick; do
		grep -aq "/nodes/$trick/db/events-[^ ]* cannot be read ([^)]*); its rows are left out" "$work/$name".{err,out} ||
			{ cat "$work/$name.err" >&2; fail "$name does not name the file that it leaves out of $trick"; }
	done
}
# Each trick alone, then all beside the genuine store.
for trick in views tables texts pages; do
	folder=$attacker_dir/nodes/$trick
	ends "query.$trick" "$tracectl" query --state-dir "$folder" --csv "select count(*) from stages where duration_ns > 1000000000000"
	[ "$trick" = views ] || names_left_out "query.$trick" "$trick"
	[ "$(tail -n 1 "$work/query.$trick.out" | tr -d '\r')" = 0 ] || fail "query of $trick: $(tail -n 1 "$work/query.$trick.out")"
done
# Endless views are not read at all: what the file has beside them is whole.
[ "$("$tracectl" query --state-dir "$attacker_dir/nodes/views" --csv "select count(*) from steps" | tail -n 1 | tr -d '\r')" -eq "$steps" ] ||
	fail "the tables beside endless views are not read"
# --state-dir keeps tracectl from asking a daemon.
ends report "$tracectl" report --dir "$state" "$attacker_dir/nodes" --json
ends report_html "$tracectl" report --dir "$state" "$attacker_dir/nodes" --html
ends analyze "$tracectl" analyze --dir "$state" "$attacker_dir/nodes" --json
ends timeline "$tracectl" timeline --since 1h --dir "$state" "$attacker_dir/nodes"
for name in report report_html analyze; do names_left_out "$name" tables texts; done
names_left_out timeline tables texts pages
ends query "$tracectl" query --state-dir "$state" --csv "select count(*) from steps"
[ "$(tail -n 1 "$work/query.out" | tr -d '\r')" -eq "$steps" ] || fail "the genuine store has $(tail -n 1 "$work/query.out") steps, not $steps"
[ ! -s "$work/query.err" ] || fail "a genuine segment is left out: $(cat "$work/query.err")"
attack_done
