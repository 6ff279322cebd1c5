//! The codes of gasless deposits that are refused.

use solver::SolverError;
use solver::gasless::execute::ExecuteError;
use solver::gasless::permits::PermitError;

use super::{Code, store_code};

pub(super) fn permit_code(error: &PermitError) -> Code {
    match error {
        PermitError::NotFound => Code::RequestNotFound,
        PermitError::NotAsked => Code::UnsupportedExecutionType,
        PermitError::InFlight => Code::AlreadyProcessing,
        PermitError::Expired => Code::SignatureExpired,
        PermitError::NotSigned => Code::InvalidSignature,
        PermitError::NonceUsed => Code::InvalidNonce,
        PermitError::BalanceTooLow { .. } => Code::GaslessPermitBalanceTooLow,
        PermitError::AllowanceTooLow { .. } => Code::TransferAmountExceedsAllowance,
        PermitError::Reverts { .. } | PermitError::Paused | PermitError::Busy | PermitError::GasTooDear => {
            Code::PermitFailed
        }
        PermitError::Blocked => Code::SanctionedWalletAddress,
        PermitError::SponsorBalance { .. } | PermitError::SponsorGone => Code::SponsorBalanceTooLow,
        PermitError::NotNow => Code::ChainDisabled,
        PermitError::Chain(_) => Code::RpcHttpError,
        PermitError::Solver(SolverError::Store(error)) => store_code(error),
        PermitError::Solver(_) => Code::UnknownError,
    }
}

pub(super) fn execute_code(error: &ExecuteError) -> Code {
    match error {
        ExecuteError::UnsupportedChain(_) => Code::UnsupportedChain,
        ExecuteError::Target
        | ExecuteError::OtherChain(_)
        | ExecuteError::NoDeposit
        | ExecuteError::Unpaid
        | ExecuteError::TooLong { .. }
        | ExecuteError::Authorizations => Code::InvalidParameters,
        ExecuteError::Reverts { .. } | ExecuteError::OperationFails | ExecuteError::TooMuchGas { .. } => {
            Code::ExecutionReverted
        }
        ExecuteError::Permit(error) => permit_code(error),
    }
}
