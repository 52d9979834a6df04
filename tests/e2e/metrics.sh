#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Metrics of a real training in a real Prometheus, or with RANKTRACE_METRICS_STORE=victoria in VictoriaMetrics with vmalert: promtool accepts the page, the alert of a slow rank fires with the right rank
# and the sentence of the journal and resolves, every query of the dashboards runs, and ranks that ended disappear.
source "$(dirname "$0")/lib.sh"
[ -z "${TORCH_ROOT:-}" ] || skip "runs with the system's PyTorch only"
store=${RANKTRACE_METRICS_STORE:-prometheus}
case $store in
prometheus) programs=(prometheus promtool curl) ;;
victoria) programs=(victoria-metrics vmalert promtool curl) ;;
*) fail "no store '$store'" ;;
esac
for program in "${programs[@]}"; do command -v "$program" >/dev/null || skip "no $program here"; done

port=$((20000 + RANDOM % 10000))
metrics=127.0.0.1:$port api=127.0.0.1:$((port + 1)) alerts=127.0.0.1:$((port + 1))
[ "$store" = prometheus ] || alerts=127.0.0.1:$((port + 3))
get() { curl --noproxy '*' -sf "$@"; }
# asked EXPRESSION: the result of a query of Prometheus, as JSON.
asked() { get --data-urlencode "query=$1" --data-urlencode nocache=1 "http://$api/api/v1/query"; }
nonempty() { asked "$1" | "$python_here" -c 'import json, sys; sys.exit(not json.load(sys.stdin)["data"]["result"])'; }
empty() { ! nonempty "$1"; }
# alerting EXPRESSION: on the firing alerts as list a.
alerting() {
	get "http://$alerts/api/v1/alerts" | "$python_here" -c 'import json, sys
a = [x for x in json.load(sys.stdin)["data"]["alerts"] or [] if x["state"] == "firing"]
for x in a: x["labels"].setdefault("alertname", x.get("name"))
sys.exit(not eval(sys.argv[1]))' "$1"
}
# fleet EXPRESSION: on the object of tracectl fleet as o.
fleet() {
	"$tracectl" fleet --url "http://$api" --since 2m --json >"$work/fleet.json" || return 1
	"$python_here" -c 'import json, sys; o = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$work/fleet.json" "$1"
}
started() { stepping "${pids[0]}" 150 && learned "${pids[0]}" && learned "${pids[1]}"; }

mkdir "$work/textfile"
e2e_start "metrics.listen=$metrics" "metrics.textfile=$work/textfile" findings.raise=no
"$tracectl" set L1=on >/dev/null
scrape="scrape_configs: [{job_name: ranktrace, honor_labels: true, static_configs: [{targets: ['$metrics']}]}]"
stores=()
if [ "$store" = prometheus ]; then
	cat >"$work/prometheus.yml" <<YML
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["$source_dir/packaging/prometheus/ranktrace.rules.yml"]
$scrape
YML
	prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" --web.listen-address="$api" --enable-feature=exemplar-storage \
		2>"$work/store.err" &
	stores+=($!)
else
	printf 'global: {scrape_interval: 1s}\n%s\n' "$scrape" >"$work/scrape.yml"
	victoria-metrics -promscrape.config="$work/scrape.yml" -storageDataPath="$work/data" -httpListenAddr="$api" -search.latencyOffset=1s \
		>"$work/store.err" 2>&1 &
	stores+=($!)
	wait_for 20 get "http://$api/health" >/dev/null || fail "VictoriaMetrics does not answer"
	vmalert -rule="$source_dir/packaging/prometheus/ranktrace.rules.yml" -datasource.url="http://$api" \
		-remoteWrite.url="http://$api" -remoteRead.url="http://$api" -notifier.url="http://127.0.0.1:9" -evaluationInterval=1s \
		-remoteWrite.flushInterval=1s -httpListenAddr="$alerts" >"$work/vmalert.err" 2>&1 &
	stores+=($!)
fi
children+=("${stores[@]}")
pids=()
for rank in 0 1; do
	train "ddp$rank" RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank TORCHELASTIC_RUN_ID=metrics MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port + 2)) -- \
		--mode ddp --steps 100000 --sleep-data 60 --hidden 128 --dawdle-file "$work/dawdle.$rank"
	pids+=("$last")
done

echo "--- a healthy job"
wait_for 90 started || fail "the ranks store no steps"
get "http://$metrics/metrics" >"$work/page"
promtool check metrics <"$work/page" || fail "promtool does not accept the page"
wait_for 30 nonempty 'up{instance="'"$metrics"'"} == 1 and on (instance) ranktrace_build_info' || fail "the store does not scrape: $(tail -3 "$work/store.err")"
wait_for 20 [ -s "$work/textfile/ranktrace.prom" ] || fail "no file for node_exporter"
# The counter is the store's number of steps; steps may end between the two.
counted=$(asked "max(ranktrace_rank_steps_total{job=\"metrics\",rank=\"1\"})" | "$python_here" -c 'import json, sys; print(json.load(sys.stdin)["data"]["result"][0]["value"][1])')
flush
stored=$(steps_of "${pids[1]}")
[ "$counted" -le "$stored" ] && [ "$counted" -gt $((stored - 150)) ] || fail "$counted steps in Prometheus, $stored in the store"

usual='o["fleet"] == [] and [(x["job"], x["ranks"], x["nodes"]) for x in o["jobs"]] == [("metrics", 2, 1)] and o["jobs"][0]["usual_step_seconds"]'
wait_for 30 fleet "$usual" || { cat "$work/fleet.json"; fail "tracectl fleet does not show the job"; }

echo "--- rank 1 is slow"
echo 200 >"$work/dawdle.1"
slow='[x for x in a if x["labels"]["alertname"] == "RanktraceSlowRank" and x["labels"]["job"] == "metrics" and x["labels"]["rank"] == "1" and x["labels"]["cause"] == "dataloader"]'
SECONDS=0
wait_for 60 alerting "$slow" || { get "http://$alerts/api/v1/alerts"; fail "no alert for rank 1"; }
echo "the alert fires after $SECONDS s"
alerting '[x for x in a if x["labels"]["alertname"] == "RanktraceSlowRank" and x["labels"]["rank"] != "1"] == []' || fail "an alert for another rank"
sentence=$(get "http://$alerts/api/v1/alerts" | "$python_here" -c 'import json, sys
print([x["annotations"]["sentence"] for x in json.load(sys.stdin)["data"]["alerts"] if x["labels"].get("alertname", x.get("name")) == "RanktraceSlowRank"][0])')
echo "$sentence"
grep -qF "findings: $sentence" "$work/daemon.log" || fail "the alert's sentence is not one of the journal"
wait_for 30 nonempty 'rate(ranktrace_rank_wait_seconds_total{rank="0"}[10s]) > on (job) rate(ranktrace_rank_wait_seconds_total{rank="1"}[10s])' ||
	fail "rank 0 does not wait for rank 1"

blamed='[(x["kind"], x["first_rank"], x["activity"]) for x in o["fleet"]] == [("slow_rank", 1, "dataloader")] and [x["rank"] for x in o["findings"]] == ["1"]'
wait_for 60 fleet "$blamed" || { cat "$work/fleet.json"; fail "tracectl fleet does not name rank 1"; }
"$tracectl" fleet --url "http://$api" --since 2m
"$tracectl" report --fleet "http://$api" --since 10m >"$work/report.txt" || fail "no report from the store"
grep -q "rank 1 of metrics" "$work/report.txt" || { cat "$work/report.txt"; fail "the report from the store does not name rank 1"; }

echo "--- queries of the dashboards"
"$python_here" - "$api" "$source_dir"/packaging/grafana/*.json <<'PY' || fail "a query of a dashboard"
import json, sys, urllib.parse, urllib.request
api, bad, none, run = sys.argv[1], [], [], 0
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for path in sys.argv[2:]:
    for panel in json.load(open(path))["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$job", "metrics").replace("$instance", ".*").replace("[1m]", "[15s]")
            try:
                with opener.open(f"http://{api}/api/v1/query?" + urllib.parse.urlencode({"query": query})) as answer:
                    result = json.load(answer)["data"]["result"]
            except urllib.error.HTTPError as error:
                bad.append((panel["title"], query, error.read().decode()[:300]))
                continue
            run += 1
            if not result:
                none.append(panel["title"])
print(f"{run} queries; without a result here: {', '.join(none) or 'none'}")
for what in bad:
    print(*what, sep="\n  ")
# What this job does not show: drops, a control group with a limit, cards.
no_card = {panel["title"] for path in sys.argv[2:] for panel in json.load(open(path))["panels"] if "ranktrace_card" in panel["targets"][0]["expr"]}
sys.exit(bool(bad) or run < 30 or not set(none) <= {"Daemons that lose data", "Throttled by cpu.max", "Records and drops", "Memory of cards by rank"} | no_card)
PY

# Pictures of them, into that folder.
[ -z "${RANKTRACE_PANELS:-}" ] || "$source_dir/tests/fleet/panels.py" "http://$api" "$RANKTRACE_PANELS" 90 job=metrics 'instance=.*'

echo "--- rank 1 recovers, and ends"
rm "$work/dawdle.1"
wait_for 90 alerting "$slow == []" || fail "the alert does not resolve"
for pid in "${pids[@]}"; do kill -9 "$pid"; done
children=("${stores[@]}")
wait_for 30 empty 'ranktrace_rank_steps_total{job="metrics"}' || fail "ranks that ended have metrics"
e2e_stop
[ ! -e "$work/textfile/ranktrace.prom" ] || fail "the file is left"

echo "--- sockets that systemd passes"
if command -v systemd-socket-activate >/dev/null; then
	daemon_prefix=(systemd-socket-activate -l "$RANKTRACE_SOCKET" -l "$metrics" --fdname=control:metrics -E "RANKTRACE_LIBEXEC=$RANKTRACE_LIBEXEC")
	e2e_start
	grep -q '^ranktrace_build_info{' <<<"$(get "http://$metrics/metrics")" || fail "no metrics on the socket that systemd passed"
	e2e_stop
else
	echo "not run: no systemd-socket-activate here"
fi
e2e_done
