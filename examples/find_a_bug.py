"""A planted bug, found by the simulated runtime and replayed from its seed. See docs/simulation.md."""

from typing import Any

from greenroom.actors import Actor
from greenroom.actors.simulation import Simulation


class Account(Actor):
    def __init__(self) -> None:
        super().__init__()
        self.balance = 100

    def withdraw(self, amount: int) -> None:
        self.balance -= amount


async def careful_client(account: Any, amount: int) -> None:
    if await account.balance >= amount:  # another client may come between these two lines
        await account.withdraw(amount)


def run(seed: int) -> tuple[int, str]:
    with Simulation(seed) as sim:
        account = sim.start(Account).proxy()
        sim.task(careful_client(account, 80), "ada")
        sim.task(careful_client(account, 80), "ben")
        sim.run()
        return account.balance.get(), sim.trace


def main() -> None:
    bad = next(seed for seed in range(1000) if run(seed)[0] < 0)
    balance, trace = run(bad)
    print(f"seed {bad}: balance {balance}")
    print(trace)


if __name__ == "__main__":
    main()
