export {
  createPasskeyWallet,
  openPasskeyWallet,
  signInWithPasskey,
} from './wallet/passkey-wallet.ts'
export type { PasskeyOracle, PasskeyWallet, PasskeyWalletOptions } from './wallet/passkey-wallet.ts'
export type { PasskeySite } from './wallet/prf.ts'
export { createGuestWallet } from './wallet/guest-wallet.ts'
export type { GuestWallet } from './wallet/guest-wallet.ts'
export { createSessionWallet } from './wallet/session-wallet.ts'
export type { SessionWallet, SessionWalletOptions } from './wallet/session-wallet.ts'
export type { Wallet } from './wallet/session-key.ts'
export type { Grant } from './wallet/ucan.ts'
export { forgetTokens } from './later/kept-tokens.ts'
