import type { z } from 'zod'
import { RuntimeError } from '#core'
import type { PaymentService } from '../service.ts'
import { inputs } from './inputs.ts'

interface Ctx {
  readonly self: { readonly service: PaymentService }
  readonly user: { readonly did: string }
}

/** The routes of the development ledger: an account, and a wallet that the server keeps for each user. */
export const developmentRoutes = {
  'GET /payments/development/account': {
    summary: 'The account of the caller on the development ledger.',
    run: async (_: unknown, { self: { service }, user }: Ctx) => {
      const ledger = await service.development()
      const { address, collectionId } = await ledger.accountOf(user.did)
      const { denom } = service.terms.coin
      const balance = await (await service.ledger()).balance(address, denom)
      return { address, denom, balance: String(balance), collectionId }
    },
  },
  'POST /payments/development/faucet': {
    signed: true as const,
    summary: 'Gives the caller another 1,000 coins of the development ledger.',
    limit: { max: 10, perMs: 60_000 },
    run: async (_: unknown, { self: { service }, user }: Ctx) => {
      await (await service.development()).faucet(user.did)
      return { given: true }
    },
  },
  'POST /payments/development/transact': {
    signed: true as const,
    summary: 'Signs and sends a transaction of the caller on the development ledger.',
    input: inputs.transact,
    run: async (input: z.output<typeof inputs.transact>, { self: { service }, user }: Ctx) => {
      demandCoins(input, service.terms.coin.denom)
      const ledger = await service.development()
      const { types, writeExec, writeSend } = await import('../ledger/messages.ts')
      const messages = input.messages.map(({ typeUrl, value }) =>
        typeUrl === types.send
          ? { typeUrl, value: writeSend(value) }
          : { typeUrl, value: writeExec(value) },
      )
      const { hash, code, log } = await ledger.transact(user.did, messages, input.memo)
      return { transactionHash: hash, code, ...(log && { log }) }
    },
  },
}

/** The development ledger has one denomination. What another one is called stands in the answer, so that a typing error is seen. */
function demandCoins({ messages }: z.output<typeof inputs.transact>, denom: string): void {
  for (const [i, { value }] of messages.entries())
    for (const [n, coin] of ('amount' in value ? value.amount : []).entries()) {
      if (coin.denom === denom) continue
      const path = `messages.${i}.value.amount.${n}.denom`
      const message = `${coin.denom} is not ${denom}, the denomination of this ledger`
      throw new RuntimeError('INVALID_INPUT', `"${path}" is not valid: ${message}.`, {
        details: [{ path, message }],
      })
    }
}
