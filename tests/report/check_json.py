# SPDX-License-Identifier: Apache-2.0
"""Checks a report's JSON for the fields that consumers of sysTrace's results read. check_json.py FILE VERDICT"""
import json
import sys

NODE = {"objectId": str, "serverIp": str, "deviceInfo": str, "kpiId": str, "methodType": str, "kpiData": list, "relaIds": list,
        "omittedDevices": list}
ROOT = {"resultCode": int, "compute": bool, "network": bool, "storage": bool, "abnormalDetail": list, "normalDetail": list, "errorMsg": str,
        "timestamp": int, "is_anomaly": bool, "anomaly_count_times": int, "anomaly_info": list, "anomaly_type": str, "start_time": int,
        "end_time": int, "ranktrace": dict}
SLOW = {"training_step": int, "anomaly_time": str, "anomaly_degree": float, "anomaly_training_time": str, "normal_training_time": str}
HANG = {"detect_point": list, "hang_minutes": float}


def fields(what, value, wanted):
    for name, kind in wanted.items():
        assert type(value.get(name)) is kind, f"{what}.{name} is {value.get(name)!r}, not {kind.__name__}"


def refuse(text):
    raise AssertionError(f"{text} is no JSON")


with open(sys.argv[1], encoding="utf-8") as file:
    root = json.load(file, parse_constant=refuse)
fields("report", root, ROOT)
verdict = root["ranktrace"]["verdict"]
assert verdict == sys.argv[2], f"the verdict is {verdict}"
wrong = verdict in ("slow", "hang")
assert root["resultCode"] == (201 if wrong else 200) and root["is_anomaly"] is wrong
assert root["anomaly_type"] == {"slow": "failSlow", "hang": "hang"}.get(verdict, "normal")
assert root["anomaly_count_times"] == len(root["anomaly_info"])
for one in root["abnormalDetail"] + root["normalDetail"]:
    fields("detail", one, NODE)
    assert one["methodType"] in ("SPACE", "TIME", "LACK") and len(one["relaIds"]) <= 16
    assert all(type(rank) is int for rank in one["relaIds"] + one["omittedDevices"])
    assert int(one["objectId"]) not in one["relaIds"] + one["omittedDevices"]
    for point in one["kpiData"]:
        time, = set(point) - {"abnormal"}
        assert int(time) > 0 and float(point[time]) >= 0 and point["abnormal"] in (0, 1)
for one in root["anomaly_info"]:
    fields("anomaly", one, HANG if verdict == "hang" else SLOW)
assert wrong == bool(root["abnormalDetail"])
