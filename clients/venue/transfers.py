"""The venue's own client against the venue simulator: keys, nonces, fees, transfers and their states."""

import asyncio
import json
import sys
import time

import lighter

MEMO = "0x" + "5b" * 32
FEE = 3_000_000


async def client_of(venue, account):
    keys = {account["apiKeyIndex"]: account["apiPrivateKey"]}
    client = lighter.SignerClient(venue["url"], account["index"], keys, chain_id=venue["networkId"])
    error = client.check_client()
    assert error is None, error
    return client


async def until(read, done):
    for _ in range(200):
        value = await read()
        if done(value):
            return value
        await asyncio.sleep(0.05)
    raise AssertionError(f"it does not come about: {value}")


async def collateral(accounts, index):
    answer = await accounts.account(by="index", value=str(index))
    return round(float(answer.accounts[0].collateral) * 1_000_000)


async def main(path):
    with open(path) as file:
        venue = json.load(file)["venue"]
    assert venue["simulator"] is True
    solver, user = venue["solver"], venue["accounts"][0]
    client = await client_of(venue, user)
    api = client.api_client
    accounts, transactions, info = lighter.AccountApi(api), lighter.TransactionApi(api), lighter.InfoApi(api)

    found = await accounts.accounts_by_l1_address(l1_address=user["l1Address"])
    assert [account.index for account in found.sub_accounts][0] == user["index"], found
    token, error = client.create_auth_token_with_expiry(api_key_index=user["apiKeyIndex"])
    assert error is None, error
    fee = await info.transfer_fee_info(
        account_index=user["index"], to_account_index=solver["index"], authorization=token
    )
    assert fee.transfer_fee_usdc == FEE, fee

    before = [await collateral(accounts, account["index"]) for account in (user, solver)]
    hashes = []
    for amount in (1, 2.5):
        _, answer, error = await client.transfer(
            user["l1PrivateKey"],
            solver["index"],
            client.ASSET_ID_USDC,
            client.ROUTE_PERP,
            client.ROUTE_PERP,
            amount,
            FEE,
            MEMO,
        )
        assert error is None and answer.code == 200, (answer, error)
        hashes.append(answer.tx_hash)
    for tx_hash in hashes:
        tx = await until(lambda: transactions.tx(by="hash", value=tx_hash), lambda tx: tx.status == 3)
        assert bytes(json.loads(tx.info)["Memo"]) == bytes.fromhex(MEMO[2:]), tx
    after = [await collateral(accounts, account["index"]) for account in (user, solver)]
    assert after == [before[0] - 3_500_000 - 2 * FEE, before[1] + 3_500_000], (before, after)

    history = await transactions.transfer_history(account_index=user["index"], authorization=token)
    assert [item.tx_hash for item in history.transfers[:2]] == hashes[::-1], history
    assert history.transfers[0].type == "L2TransferOutflow"

    # A wallet's signature by somebody else is refused, and the nonce is not used up.
    stranger = venue["accounts"][1]
    _, answer, error = await client.transfer(
        stranger["l1PrivateKey"], solver["index"], client.ASSET_ID_USDC, 0, 0, 1, FEE, MEMO
    )
    assert answer is None and "L1 signature" in error, (answer, error)
    own = venue["accounts"][-1]
    _, answer, error = await client.transfer_same_master_account(own["index"], client.ASSET_ID_USDC, 0, 0, 1, 0, MEMO)
    assert error is None and answer.code == 200, (answer, error)
    await client.close()
    print(f"the venue's own client: {len(hashes) + 1} transfers, at {time.strftime('%H:%M:%S')}")


asyncio.run(main(sys.argv[1]))
