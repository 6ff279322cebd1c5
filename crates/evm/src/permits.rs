//! Gasless deposits: the signatures by which a user lets a relayer deposit, and the calls that carry them.
//!
//! Both forms go through the approval proxy and commit to the same witness: the relayer that may submit them, and every
//! call that runs. Permit2 signs the witness as a member; EIP-3009 has no room for it, so its hash is the nonce.

use alloy::primitives::{Address, B256, Bytes, Signature, U256, address};
use alloy::sol;
use alloy::sol_types::{Eip712Domain, SolCall, SolStruct};

use crate::contracts::{
    ApprovalProxy, Permit3009, PermitBatchTransferFrom, PermitBatchWitnessTransferFrom, ReceiveWithAuthorization,
    RelayerWitness,
};

/// The address of Permit2 on nearly every chain.
pub const PERMIT2: Address = address!("000000000022D473030F116dDEE9F6B43aC78BA3");

/// The domain of Permit2, which has no version.
pub fn permit2_domain(chain_id: u64, permit2: Address) -> Eip712Domain {
    Eip712Domain::new(Some("Permit2".into()), None, Some(U256::from(chain_id)), Some(permit2), None)
}

impl RelayerWitness {
    /// The hash that Permit2 is given as the witness, and an EIP-3009 token as the nonce.
    pub fn hash(&self) -> B256 {
        self.eip712_hash_struct()
    }
}

impl PermitBatchWitnessTransferFrom {
    pub fn digest(&self, chain_id: u64, permit2: Address) -> B256 {
        self.eip712_signing_hash(&permit2_domain(chain_id, permit2))
    }

    /// The call of the approval proxy, to be sent by the relayer of the witness.
    pub fn submission(&self, user: Address, signature: Bytes) -> Bytes {
        let Self { permitted, nonce, deadline, witness, .. } = self.clone();
        let call = ApprovalProxy::permit2TransferAndMulticallCall {
            user,
            permit: PermitBatchTransferFrom { permitted, nonce, deadline },
            calls: witness.call3Values,
            refundTo: witness.refundTo,
            nftRecipient: witness.nftRecipient,
            metadata: witness.metadata,
            permitSignature: signature,
        };
        call.abi_encode().into()
    }
}

impl ReceiveWithAuthorization {
    /// An authorization to pay the proxy whose nonce commits to the witness. Valid until a moment, and from the start:
    /// a bound of the past could refuse it on a chain whose clock is late.
    pub fn to_proxy(from: Address, proxy: Address, value: U256, valid_before: u64, witness: &RelayerWitness) -> Self {
        Self {
            from,
            to: proxy,
            value,
            validAfter: U256::ZERO,
            validBefore: U256::from(valid_before),
            nonce: witness.hash(),
        }
    }

    /// The digest under the token's own domain.
    pub fn digest(&self, token: &Eip712Domain) -> B256 {
        self.eip712_signing_hash(token)
    }

    /// The call of the approval proxy, to be sent by the relayer of the witness. None where the authorization commits
    /// to another witness: the token would refuse it.
    pub fn submission(&self, token: Address, witness: &RelayerWitness, signature: &Signature) -> Option<Bytes> {
        if self.nonce != witness.hash() {
            return None;
        }
        let permit = Permit3009 {
            from: self.from,
            value: self.value,
            validAfter: self.validAfter,
            validBefore: self.validBefore,
            v: 27 + u8::from(signature.v()),
            r: signature.r().into(),
            s: signature.s().into(),
        };
        let witness = witness.clone();
        let call = ApprovalProxy::permit3009TransferAndMulticallCall {
            permits: vec![permit],
            tokens: vec![token],
            calls: witness.call3Values,
            refundTo: witness.refundTo,
            nftRecipient: witness.nftRecipient,
            metadata: witness.metadata,
        };
        Some(call.abi_encode().into())
    }
}

/// A user's signature that lets a relayer bring tokens in and run the calls of its witness.
#[derive(Clone, Debug)]
pub enum Permit {
    /// The token takes authorizations itself, under its own domain.
    Authorization {
        domain: Box<Eip712Domain>,
        signed: Box<ReceiveWithAuthorization>,
        token: Address,
        witness: RelayerWitness,
    },
    /// The token's owner has approved Permit2.
    Permit2 { chain_id: u64, signed: PermitBatchWitnessTransferFrom },
}

impl Permit {
    pub fn digest(&self) -> B256 {
        match self {
            Self::Authorization { domain, signed, .. } => signed.digest(domain),
            Self::Permit2 { chain_id, signed } => signed.digest(*chain_id, PERMIT2),
        }
    }

    /// The call of the approval proxy. None where a token that takes authorizations cannot read the signature: it takes
    /// those of keys alone.
    pub fn submission(&self, user: Address, signature: &Bytes) -> Option<Bytes> {
        match self {
            Self::Authorization { signed, token, witness, .. } => {
                signed.submission(*token, witness, &Signature::from_raw(signature).ok()?)
            }
            Self::Permit2 { signed, .. } => Some(signed.submission(user, signature.clone())),
        }
    }

    /// The token that the signature moves, and how much of it.
    pub fn moves(&self) -> (Address, U256) {
        match self {
            Self::Authorization { signed, token, .. } => (*token, signed.value),
            Self::Permit2 { signed, .. } => {
                signed.permitted.first().map_or((Address::ZERO, U256::MAX), |it| (it.token, it.amount))
            }
        }
    }

    /// The call that tells whether the signature's nonce is used, and the part of the answer that says so.
    pub fn nonce_read(&self, user: Address) -> (Address, Bytes, U256) {
        match self {
            Self::Authorization { signed, token, .. } => {
                let call = Eip3009::authorizationStateCall { authorizer: user, nonce: signed.nonce };
                (*token, call.abi_encode().into(), U256::from(1u8))
            }
            Self::Permit2 { signed, .. } => {
                // One bit of a word for each nonce.
                let (word, bit) = (signed.nonce >> 8, (signed.nonce & U256::from(0xffu8)).to::<usize>());
                let call = Permit2Nonces::nonceBitmapCall { owner: user, word };
                (PERMIT2, call.abi_encode().into(), U256::from(1u8) << bit)
            }
        }
    }
}

sol! {
    interface Eip3009 {
        function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
    }

    interface Permit2Nonces {
        function nonceBitmap(address owner, uint256 word) external view returns (uint256);
    }
}

/// The signature of an account's key over this digest, in the form that contracts read. None if it is of nobody or
/// somebody else.
pub fn signed_by(digest: B256, account: Address, signature: &[u8]) -> Option<Bytes> {
    let signature = Signature::from_raw(signature).ok()?;
    let signer = signature.recover_address_from_prehash(&digest).ok()?;
    (signer == account).then(|| Bytes::copy_from_slice(&signature.as_bytes()))
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{b256, bytes, keccak256};

    use super::*;
    use crate::contracts::{Call3Value, TokenPermissions};

    const USER: Address = address!("4a84e43a54cc2f8abb42afa12dd825212abd36d1");
    const TOKEN: Address = address!("9099eb14ed3f3723cd8e6904d75cb644b19d4d98");
    const PROXY: Address = address!("11107C3157f4e281D85d7010a4fEE074F2aAf088");

    fn witness() -> RelayerWitness {
        let call = |target, data| Call3Value { target, allowFailure: false, value: U256::ZERO, callData: data };
        RelayerWitness {
            relayer: address!("1d74b5942d13e0d2645946cc4f2aa71b8eda940f"),
            refundTo: USER,
            nftRecipient: USER,
            metadata: Bytes::new(),
            call3Values: vec![
                call(
                    TOKEN,
                    bytes!(
                        "095ea7b3000000000000000000000000cff3ea62bc5a19158f9690603bfa25a02b2dce5a000000000000000000000000000000000000000000000000000000000ee6b280"
                    ),
                ),
                call(
                    address!("cff3ea62bc5a19158f9690603bfa25a02b2dce5a"),
                    bytes!(
                        "e80179520000000000000000000000004a84e43a54cc2f8abb42afa12dd825212abd36d10000000000000000000000009099eb14ed3f3723cd8e6904d75cb644b19d4d98000000000000000000000000000000000000000000000000000000000ee6b2807f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb"
                    ),
                ),
            ],
        }
    }

    fn permit() -> PermitBatchWitnessTransferFrom {
        PermitBatchWitnessTransferFrom {
            permitted: vec![TokenPermissions { token: TOKEN, amount: U256::from(250_000_000u64) }],
            spender: PROXY,
            nonce: "101956708968129979882113013600064001259767922500495045937627299844819327096459".parse().unwrap(),
            deadline: U256::from(1_893_456_000u64),
            witness: witness(),
        }
    }

    #[test]
    fn the_published_witness_and_digest() {
        assert_eq!(witness().hash(), b256!("d9ba9d5a378f0a20cff430e6f01b61b84e6a2ff28f2b0bfb21aaf06ffecf4ebf"));
        assert_eq!(
            permit().digest(8453, PERMIT2),
            b256!("13be26dfa349e494ed4e6af73be96f24525b1c636329f7715c2969f83da15f00")
        );
    }

    #[test]
    fn type_hashes_are_the_public_ones() {
        assert_eq!(
            keccak256(RelayerWitness::eip712_encode_type().as_bytes()),
            b256!("4b21a98ca11613e848d71d25db5eb5a6ee6e910560d8f8eebeff8ea5168af917")
        );
        assert_eq!(
            keccak256(ReceiveWithAuthorization::eip712_encode_type().as_bytes()),
            b256!("d099cc98ef71107a616c4f0f941f04c322d8e254fe26b3c6668db87aae413de8")
        );
    }

    #[test]
    fn a_permit_is_submitted_as_it_was_signed() {
        let (signed, signature) = (permit(), bytes!("0102"));
        let data = signed.submission(USER, signature.clone());
        let call = ApprovalProxy::permit2TransferAndMulticallCall::abi_decode(&data).unwrap();
        assert_eq!((call.user, call.permitSignature), (USER, signature));
        let PermitBatchTransferFrom { permitted, nonce, deadline } = call.permit;
        let witness = RelayerWitness {
            relayer: signed.witness.relayer,
            refundTo: call.refundTo,
            nftRecipient: call.nftRecipient,
            metadata: call.metadata,
            call3Values: call.calls,
        };
        let back = PermitBatchWitnessTransferFrom { permitted, spender: PROXY, nonce, deadline, witness };
        assert_eq!(back.digest(8453, PERMIT2), signed.digest(8453, PERMIT2));
    }

    #[test]
    fn an_authorization_goes_with_its_own_witness_alone() {
        let witness = witness();
        let signed = ReceiveWithAuthorization::to_proxy(USER, PROXY, U256::from(7), 1_893_456_000, &witness);
        assert_eq!((signed.to, signed.nonce), (PROXY, witness.hash()));
        let signature = Signature::new(U256::from(1), U256::from(2), true);
        let data = signed.submission(TOKEN, &witness, &signature).unwrap();
        let call = ApprovalProxy::permit3009TransferAndMulticallCall::abi_decode(&data).unwrap();
        let permit = &call.permits[0];
        assert_eq!((permit.from, permit.value, permit.v), (USER, U256::from(7), 28));
        assert_eq!((permit.validAfter, permit.validBefore), (signed.validAfter, signed.validBefore));
        assert_eq!((call.tokens, call.calls), (vec![TOKEN], witness.call3Values.clone()));
        let other = RelayerWitness { relayer: USER, ..witness };
        assert_eq!(signed.submission(TOKEN, &other, &signature), None);
    }
}
