import subprocess
import sys


def test_the_verifier_is_imported_without_engines(tmp_path):
    """In a script file: a bare `python -c` may exit 0 before its assertion (SPARK-55667)."""
    script = tmp_path / "start.py"
    script.write_text(
        "import sys\nimport etc_policy.gx.verifier\n"
        "heavy = {'pyspark', 'py4j', 'great_expectations', 'pandas'} & set(sys.modules)\nprint('loaded', sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "loaded []\n"
