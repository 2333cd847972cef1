"""python3 -m unittest discover -s tools"""

import tempfile
import unittest
from pathlib import Path

import readme_commands


class Readmes(unittest.TestCase):
    def test_every_readme_of_the_repository(self):
        known = readme_commands.targets()
        self.assertLessEqual({"run", "test", "step01", "lab09", "profile03", "journal"}, known)
        for readme in readme_commands.readmes():
            self.assertEqual(readme_commands.static_faults(readme, known), [], readme)

    def test_faults_are_found(self):
        text = ("[x](no/such.md) `no_such.cuh` and `make nothing`, but `tools/results.py`, `make run`, `make stepNN`\n"
                "```\nmake step01   # 'comment\nmake wrong && make test\nmake run PROMPT=\"open\n```\n"
                "```cpp\nlaunch([&](const int& a) {});  // make unseen\n```\n")
        with tempfile.TemporaryDirectory() as folder:
            readme = Path(folder, "README.md")
            readme.write_text(text)
            faults = readme_commands.static_faults(readme, {"run", "test", "step01"})
        self.assertEqual(len(faults), 5, faults)
        for word in ("no/such.md", "no_such.cuh", "make nothing", "make wrong", "without its end"):
            self.assertTrue(any(word in fault for fault in faults), word)


if __name__ == "__main__":
    unittest.main()
