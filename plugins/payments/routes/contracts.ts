import { reply } from '#core'
import { z } from 'zod'
import type { PaymentService } from '../service.ts'
import { inputs } from './inputs.ts'
import { contract, contractToSign } from './shapes.ts'

interface Ctx {
  readonly self: { readonly service: PaymentService }
  readonly user: { readonly did: string }
}

/** The routes of contracts: what a user grants the oracle on the ledger. */
export const contractRoutes = {
  'POST /payments/contracts': {
    signed: true as const,
    summary: 'Makes a contract that waits for its transaction, and what the wallet signs for it.',
    input: inputs.contracts,
    answers: { 201: ['application/json'] },
    run: async (terms: z.output<typeof inputs.contracts>, { self: { service }, user }: Ctx) =>
      reply(201, contractToSign.parse(await (await service.contracts()).offer(user.did, terms))),
  },
  'GET /payments/contracts': {
    summary: 'The contracts of the caller, the newest first.',
    output: z.object({ contracts: z.array(contract) }),
    run: async (_: unknown, { self: { service }, user }: Ctx) => ({
      contracts: await (await service.contracts()).list(user.did),
    }),
  },
  'POST /payments/contracts/:id/confirm': {
    signed: true as const,
    summary:
      'Makes a contract active whose transaction stands on the ledger; 202 while it does not.',
    input: inputs.confirm,
    answers: { 200: ['application/json'], 202: ['application/json'] },
    run: async (
      { id, txHash }: z.output<typeof inputs.confirm>,
      { self: { service }, user }: Ctx,
    ) => {
      const confirmed = await (await service.contracts()).confirm(user.did, id, txHash)
      if (confirmed) return reply(200, confirmed)
      return reply(202, { id, status: 'pending' }, { headers: { 'Retry-After': '2' } })
    },
  },
  'DELETE /payments/contracts/:id': {
    signed: true as const,
    summary: 'Ends a contract, and says what the wallet signs to end it on the ledger too.',
    input: inputs.contract,
    output: contractToSign,
    run: async ({ id }: { id: string }, { self: { service }, user }: Ctx) =>
      (await service.contracts()).revoke(user.did, id),
  },
}
