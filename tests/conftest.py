"""Options and fixtures that tests share."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from mcpc import sdk
from mcpc.plugins import find_target

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

#: Runs the device's tool on an AArch64 processor: ``run(artifact, "--selftest", cpu="cortex-a76")``.
DeviceRun = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the golden files with what the passes now make")


@pytest.fixture(scope="session", autouse=True)
def described_targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Targets are what their descriptions say, whatever the user has measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCPC_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session")
def aarch64_sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SDK for AArch64: headers, libraries, and the static mcp26-run."""
    folder = tmp_path_factory.mktemp("sdk")
    sdk.build(find_target("aarch64"), folder)
    return folder


@pytest.fixture(scope="session")
def qemu() -> str:
    """qemu-aarch64; tests that need it are skipped where it is not installed."""
    found = shutil.which("qemu-aarch64")
    if found is None:
        pytest.skip("qemu-aarch64 is not installed (apt-get install qemu-user)")
    return found


@pytest.fixture(scope="session")
def run_on_aarch64(qemu: str, aarch64_sdk: Path) -> DeviceRun:
    """Runs mcp26-run under qemu with the arguments given."""

    def run(artifact: Path, *arguments: str, cpu: str = "cortex-a76") -> subprocess.CompletedProcess[str]:
        command = [qemu, "-cpu", cpu, str(aarch64_sdk / "bin" / "mcp26-run"), str(artifact), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run
