export { createDevelopmentWallet } from './wallet/development-wallet.ts'
export type {
  DevelopmentWallet,
  DevelopmentWalletOptions,
  Grant,
} from './wallet/development-wallet.ts'
