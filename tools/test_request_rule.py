"""python3 -m unittest discover -s tools"""

import json
import unittest

import request_rule
from results import ROOT


class Rule(unittest.TestCase):
    def test_every_pattern_that_hardware_counted(self):
        patterns = json.loads((ROOT / "common/simt/hw_requests.json").read_text())["patterns"]
        self.assertGreater(len(patterns), 100)
        for p in patterns:
            if p["space"] == "shared":
                cost = request_rule.wavefronts(p["offsets"], p["width"], p["op"] == "load")
                self.assertEqual(cost, p["wavefronts"], p["name"])
            else:
                self.assertEqual(request_rule.sectors(p["offsets"], p["width"]), p["sectors"], p["name"])


if __name__ == "__main__":
    unittest.main()
