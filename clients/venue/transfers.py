"""The venue's own client against the venue simulator: keys, nonces, fees, transfers and their states; and a deposit into
the venue and a withdrawal out of it through the service, the withdrawal signed by that client."""

import asyncio
import json
import sys
import time
import urllib.request

import lighter

MEMO = "0x" + "5b" * 32
FEE = 3_000_000


async def client_of(venue, account):
    keys = {account["apiKeyIndex"]: account["apiPrivateKey"]}
    client = lighter.SignerClient(venue["url"], account["index"], keys, chain_id=venue["networkId"])
    error = client.check_client()
    assert error is None, error
    return client


async def until(read, done, times=2400):
    for _ in range(times):
        value = await read()
        if done(value):
            return value
        await asyncio.sleep(0.05)
    raise AssertionError(f"it does not come about: {value}")


async def collateral(accounts, index):
    answer = await accounts.account(by="index", value=str(index))
    return round(float(answer.accounts[0].collateral) * 1_000_000)


def post(url, body):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def rpc(chain, method, *params):
    answer = post(chain["rpcUrl"], {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    assert "error" not in answer, answer
    return answer["result"]


def usdc_of(chain, who):
    token = next(token["address"] for token in chain["tokens"] if token["symbol"] == "USDC")
    data = "0x70a08231" + who[2:].rjust(64, "0")
    return token, lambda: int(rpc(chain, "eth_call", {"to": token, "data": data}, "latest"), 16)


async def ended(facts, quote):
    endpoint = quote["steps"][-1]["items"][0]["check"]["endpoint"]

    async def read():
        with urllib.request.urlopen(facts["baseUrl"] + endpoint, timeout=30) as answer:
            return json.load(answer)

    status = await until(read, lambda status: status["status"] in ("success", "failure", "refund"))
    assert status["status"] == "success", status
    return status


async def deposit(facts, chain, accounts, user, solver):
    """250 USDC from a wallet to the user's account."""
    wallet = facts["accounts"][0]["address"]
    token, balance = usdc_of(chain, wallet)
    before = [await collateral(accounts, account["index"]) for account in (user, solver)]
    held = balance()
    quote = post(
        facts["baseUrl"] + "/quote/v2",
        {
            "user": wallet,
            "recipient": str(user["index"]),
            "originChainId": chain["id"],
            "destinationChainId": 3586256,
            "originCurrency": token,
            "destinationCurrency": "0",
            "amount": "250000000",
            "tradeType": "EXACT_INPUT",
        },
    )
    for step in quote["steps"]:
        for item in step["items"]:
            data = item["data"]
            call = {"from": data["from"], "to": data["to"], "data": data["data"], "value": hex(int(data["value"]))}
            tx_hash = rpc(chain, "eth_sendTransaction", call)

            async def mined():
                return rpc(chain, "eth_getTransactionReceipt", tx_hash)

            receipt = await until(mined, bool)
            assert receipt["status"] == "0x1", receipt
    await ended(facts, quote)
    promised = int(quote["details"]["currencyOut"]["amount"])
    await until(lambda: collateral(accounts, user["index"]), lambda has: has != before[0])
    after = [await collateral(accounts, account["index"]) for account in (user, solver)]
    assert after == [before[0] + promised, before[1] - promised], (before, promised, after)
    assert balance() == held - 250_000_000, (held, balance())


async def withdraw(facts, chain, client, accounts, user, solver):
    """75 USDC from the user's account to a wallet, by the action that the quote asks for."""
    recipient = "0x" + f"{time.time_ns():x}".rjust(40, "2")
    token, balance = usdc_of(chain, recipient)
    before = [await collateral(accounts, account["index"]) for account in (user, solver)]
    quote = post(
        facts["baseUrl"] + "/quote/v2",
        {
            "user": str(user["index"]),
            "recipient": recipient,
            "originChainId": 3586256,
            "destinationChainId": chain["id"],
            "originCurrency": "0",
            "destinationCurrency": token,
            "amount": "75000000",
            "tradeType": "EXACT_INPUT",
        },
    )
    action = quote["steps"][0]["items"][0]["data"]["action"]
    assert action["type"] == "transfer", action
    asked = action["parameters"]
    assert asked["amount"] == 75_000_000 and asked["usdcFee"] == FEE, asked
    _, answer, error = await client.transfer(
        user["l1PrivateKey"],
        asked["toAccountIndex"],
        asked["assetIndex"],
        asked["fromRouteType"],
        asked["toRouteType"],
        asked["amount"] / 1_000_000,
        asked["usdcFee"],
        asked["memo"],
    )
    assert error is None and answer.code == 200, (answer, error)
    status = await ended(facts, quote)
    assert status["inTxHashes"] == [answer.tx_hash], (status, answer)
    assert balance() == int(quote["details"]["currencyOut"]["amount"]), (balance(), quote["details"])
    after = [await collateral(accounts, account["index"]) for account in (user, solver)]
    assert after == [before[0] - 75_000_000 - FEE, before[1] + 75_000_000], (before, after)


async def main(path):
    with open(path) as file:
        facts = json.load(file)
    venue = facts["venue"]
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

    # To another user: whatever reaches the service's account without an order goes back.
    other = venue["accounts"][1]
    before = [await collateral(accounts, account["index"]) for account in (user, other)]
    hashes = []
    for amount in (1, 2.5):
        _, answer, error = await client.transfer(
            user["l1PrivateKey"],
            other["index"],
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
    after = [await collateral(accounts, account["index"]) for account in (user, other)]
    assert after == [before[0] - 3_500_000 - 2 * FEE, before[1] + 3_500_000], (before, after)

    history = await transactions.transfer_history(account_index=user["index"], authorization=token)
    assert [item.tx_hash for item in history.transfers[:2]] == hashes[::-1], history
    assert history.transfers[0].type == "L2TransferOutflow"

    # A wallet's signature by somebody else is refused, and the nonce is not used up.
    _, answer, error = await client.transfer(
        other["l1PrivateKey"], solver["index"], client.ASSET_ID_USDC, 0, 0, 1, FEE, MEMO
    )
    assert answer is None and "L1 signature" in error, (answer, error)
    own = venue["accounts"][-1]
    _, answer, error = await client.transfer_same_master_account(own["index"], client.ASSET_ID_USDC, 0, 0, 1, 0, MEMO)
    assert error is None and answer.code == 200, (answer, error)
    await until(lambda: transactions.tx(by="hash", value=answer.tx_hash), lambda tx: tx.status == 3)
    chain = next(chain for chain in facts["chains"] if chain["name"] == "base")
    await deposit(facts, chain, accounts, user, solver)
    await withdraw(facts, chain, client, accounts, user, solver)
    await client.close()
    print(f"the venue's own client: {len(hashes) + 2} transfers and one deposit, at {time.strftime('%H:%M:%S')}")


asyncio.run(main(sys.argv[1]))
