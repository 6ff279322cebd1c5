"""Writes official.json: keys, transfers and auth tokens signed by the venue's own native signer.

    python3 -m venv .venv && .venv/bin/pip install lighter-sdk==1.1.8
    .venv/bin/python generate.py > official.json

The signer is the shared library inside the package, called through the package's own bindings; nothing is sent anywhere.
Keys, signatures and some of the transfers are random and expiries follow the clock, so every run writes other vectors. All
of them must hold; `clients/venue/run` makes fresh ones and has them tested.
"""

import json
import random
import sys

from eth_account import Account
from eth_account.messages import encode_defunct
from lighter import signer_client
from lighter.signer_client import create_api_key, decode_and_free

SIGNER = signer_client.get_signer()
WALLET = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
MEMO = "0x" + "5b" * 31 + "01"
MAX_ACCOUNT = 2**48 - 2
MAX_AMOUNT = 2**60 - 1

# Numbers just inside of the range of private keys, besides random ones: one, two, and the order less one.
ORDER = 0x7FFFFFFD800000077FFFFFF1000000167FFFFFE6CFB80639E8885C39D724A09CE80FD996948BFFE1
SPECIAL_KEYS = [number.to_bytes(40, "little").hex() for number in (1, 2, ORDER - 1)]


def client(private_key, network, key_index, account):
    error = SIGNER.CreateClient(
        b"http://127.0.0.1:1", private_key.removeprefix("0x").encode(), network, key_index, account
    )
    message = decode_and_free(error)
    assert message is None, message


def transfer(private_key, **changes):
    values = {
        "network": 304,
        "from": 5,
        "key_index": 3,
        "to": 722011,
        "asset": 3,
        "from_route": 0,
        "to_route": 0,
        "amount": 1_000_000,
        "fee": 3_000_000,
        "memo": MEMO,
        "skip_nonce": 0,
        "nonce": 11,
    } | changes
    client(private_key, values["network"], values["key_index"], values["from"])
    result = SIGNER.SignTransfer(
        values["to"],
        values["asset"],
        values["from_route"],
        values["to_route"],
        values["amount"],
        values["fee"],
        values["memo"].encode(),
        values["skip_nonce"],
        values["nonce"],
        values["key_index"],
        values["from"],
    )
    info, tx_hash = decode_and_free(result.txInfo), decode_and_free(result.txHash)
    text, error = decode_and_free(result.messageToSign), decode_and_free(result.err)
    if error:
        return {"values": values, "error": error}
    signed = Account.from_key(WALLET).sign_message(encode_defunct(text=text))
    info = json.loads(info) | {"L1Sig": signed.signature.to_0x_hex()}
    return {
        "privateKey": private_key,
        "network": values["network"],
        "type": result.txType,
        "info": json.dumps(info, separators=(",", ":")),
        "hash": tx_hash,
        "text": text,
    }


def token(private_key, network, account, key_index, deadline):
    client(private_key, network, key_index, account)
    result = SIGNER.CreateAuthToken(deadline, key_index, account)
    text, error = decode_and_free(result.str), decode_and_free(result.err)
    assert error is None, error
    return {"privateKey": private_key, "token": text}


def anywhere(most):
    """A number up to the most, of any length: evenly drawn ones would nearly all be long."""
    return random.randrange(min(most + 1, 2 ** random.randint(1, most.bit_length())))


def random_change():
    return {
        "network": random.choice((300, 304)),
        "from": 1 + anywhere(MAX_ACCOUNT - 1),
        "key_index": anywhere(254),
        "to": anywhere(MAX_ACCOUNT),
        "asset": random.randint(1, 62),
        "from_route": random.randint(0, 1),
        "to_route": random.randint(0, 1),
        "amount": 1 + anywhere(MAX_AMOUNT - 1),
        "fee": anywhere(MAX_AMOUNT),
        "memo": "0x" + random.randbytes(32).hex(),
        "skip_nonce": random.randint(0, 1),
        "nonce": anywhere(2**63 - 1),
    }


def main():
    pairs = []
    for _ in range(8):
        private_key, public_key, error = create_api_key()
        assert error is None, error
        pairs.append({"privateKey": private_key, "publicKey": public_key})
    keys = [pair["privateKey"] for pair in pairs] + SPECIAL_KEYS
    changes = (
        [{}]
        + [{"network": network} for network in (300, 304, 466324)]
        + [{"amount": amount} for amount in (1, 2**32 - 1, 2**32, 2**32 + 1, 2**53, MAX_AMOUNT)]
        + [{"fee": fee} for fee in (0, 1, 2**32 - 1, 2**32, MAX_AMOUNT)]
        + [{"from": index} for index in (1, 2**47 - 1, 2**47, MAX_ACCOUNT)]
        + [{"to": index} for index in (0, 1, 5, 2**32, 2**47, MAX_ACCOUNT)]
        + [{"asset": asset} for asset in (1, 2, 62)]
        + [{"from_route": a, "to_route": b} for a in (0, 1) for b in (0, 1)]
        + [{"key_index": index} for index in (0, 1, 254)]
        + [{"nonce": nonce} for nonce in (0, 1, 2**32, 2**48 - 1, 2**62, 2**63 - 1)]
        + [{"memo": memo} for memo in ("00" * 32, "ff" * 32, "0x" + "AB" * 32, "a plain remark of thirty-two byt")]
        + [{"skip_nonce": 1}, {"skip_nonce": 1, "amount": MAX_AMOUNT, "nonce": 2**63 - 1}]
    )
    transfers = [transfer(keys[n % len(keys)], **change) for n, change in enumerate(changes)]
    transfers += [transfer(key) for key in keys]
    transfers += [transfer(random.choice(keys), **random_change()) for _ in range(64)]
    refusals = [
        transfer(keys[0], **change)
        for change in (
            {"amount": 0},
            {"amount": -1},
            {"amount": MAX_AMOUNT + 1},
            {"fee": -1},
            {"fee": MAX_AMOUNT + 1},
            {"to": MAX_ACCOUNT + 1},
            {"asset": 0},
            {"asset": 63},
            {"from_route": 2},
            {"to_route": 2},
            {"key_index": 255},
            {"nonce": -2},
        )
    ]
    tokens = [
        token(keys[n % len(keys)], network, account, key_index, deadline)
        for n, (network, account, key_index, deadline) in enumerate(
            (network, account, key_index, deadline)
            for network in (300, 304)
            for account in (1, 5, MAX_ACCOUNT)
            for key_index in (0, 254)
            for deadline in (1_700_000_600, 9_999_999_999)
        )
    ]
    assert not any("error" in it for it in transfers), [it for it in transfers if "error" in it]
    assert all("error" in it for it in refusals), refusals
    vectors = {
        "signer": "lighter-sdk 1.1.8",
        "wallet": Account.from_key(WALLET).address,
        "keys": pairs,
        "transfers": transfers,
        "refusals": refusals,
        "tokens": tokens,
    }
    json.dump(vectors, sys.stdout, indent=1)
    sys.stdout.write("\n")


main()
