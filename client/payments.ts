'use client'
export type { Settlement } from './later/paying.ts'
export { inCoins } from './core/coins.ts'
export { usePayments } from './react/use-payments.ts'
export type {
  PaymentAccount,
  PaymentCharge,
  PaymentClaim,
  PaymentsResult,
  PaymentTerms,
} from './react/use-payments.ts'
