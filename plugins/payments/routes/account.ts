import { reply, RuntimeError } from '#core'
import { z } from 'zod'
import type { PaymentService } from '../service.ts'
import { inputs } from './inputs.ts'
import { account, charge, claim } from './shapes.ts'

// What reads and writes accounts is imported by the first call: a server that is asked none of this starts sooner.

interface Ctx {
  readonly self: { readonly service: PaymentService }
}
type UserCtx = Ctx & { readonly user: { readonly did: string } }
type OperatorCtx = Ctx & { readonly caller: string }

const claims = z.object({ claims: z.array(claim), nextCursor: z.string().optional() })
const pending = { status: 'pending' as const }

/** The routes by which users see what they owe, and pay it. */
export const accountRoutes = {
  'GET /payments/account': {
    summary: 'What the caller has paid in advance, owes, and may still spend.',
    output: account,
    run: async (_: unknown, { self: { service }, user }: UserCtx) => {
      const { accountView } = await import('../accounts/reading.ts')
      return accountView(service.db, service.books, user.did)
    },
  },
  'GET /payments/claims': {
    summary: 'The claims of the caller, the newest first.',
    input: inputs.claims,
    output: claims,
    run: async (input: z.output<typeof inputs.claims>, { self: { service }, user }: UserCtx) => {
      const { claimViews, listClaims } = await import('../accounts/reading.ts')
      const page = await listClaims(service.db, { ...input, did: user.did })
      return { ...page, claims: await claimViews(service.db, service.terms, page.claims) }
    },
  },
  'GET /payments/claims/:id': {
    summary: 'One claim of the caller, with its charges.',
    input: inputs.claim,
    output: claim,
    run: async ({ id }: { id: string }, { self: { service }, user }: UserCtx) => {
      const { claimViews, findClaim } = await import('../accounts/reading.ts')
      const found = await findClaim(service.db, user.did, id)
      const [view] = await claimViews(service.db, service.terms, [found])
      return view ?? never()
    },
  },
  'GET /payments/charges': {
    summary: 'What turns of the caller cost: of a session, of a run, or the newest 200.',
    input: inputs.charges,
    output: z.object({ charges: z.array(charge) }),
    run: async (input: z.output<typeof inputs.charges>, { self: { service }, user }: UserCtx) => {
      const { chargeView, findCharges } = await import('../accounts/reading.ts')
      return { charges: (await findCharges(service.db, user.did, input)).map(chargeView) }
    },
  },
  'POST /payments/claims': {
    signed: true as const,
    summary: 'Presents what is due, or asks for an advance.',
    input: inputs.present,
    output: z.object({ claim: claim.nullable() }),
    run: async ({ advance }: { advance?: number }, { self: { service }, user }: UserCtx) => {
      const { claimViews } = await import('../accounts/reading.ts')
      const asked = await service.present(user.did, advance)
      const [view = null] = await claimViews(service.db, service.terms, asked ? [asked] : [])
      return { claim: view }
    },
  },
  'POST /payments/claims/:id/dispute': {
    signed: true as const,
    summary: 'Says that a claim is wrong; the operator decides.',
    input: inputs.dispute,
    output: claim,
    run: async (wrong: { id: string; reason: string }, { self: { service }, user }: UserCtx) => {
      const { dispute } = await import('../accounts/disputes.ts')
      const { claimViews } = await import('../accounts/reading.ts')
      const disputed = await dispute(service.db, service.books, user.did, wrong)
      const [view] = await claimViews(service.db, service.terms, [disputed])
      return view ?? never()
    },
  },
  'POST /payments/prepare': {
    signed: true as const,
    summary: 'Makes what a wallet signs to pay claims.',
    input: inputs.prepare,
    run: async (input: z.output<typeof inputs.prepare>, { self: { service }, user }: UserCtx) =>
      (await service.payments()).prepare(user.did, input.address, input.claims),
  },
  'POST /payments/settle': {
    signed: true as const,
    summary: 'Counts a payment that stands on the ledger; 202 while it does not.',
    input: inputs.settle,
    answers: { 200: ['application/json'], 202: ['application/json'] },
    run: async (input: z.output<typeof inputs.settle>, { self: { service }, user }: UserCtx) => {
      const { paymentId, txHash } = input
      const settled = await (await service.payments()).settle(user.did, txHash, paymentId)
      if (settled.status === 'settled') return reply(200, settled)
      return reply(202, pending, { headers: { 'Retry-After': '2' } })
    },
  },
  'GET /payments/admin/claims': {
    auth: 'operator' as const,
    summary: 'Claims of everybody, the newest first.',
    input: inputs.claims,
    run: async (input: z.output<typeof inputs.claims>, { self: { service } }: Ctx) => {
      const { claimViews, listClaims } = await import('../accounts/reading.ts')
      const page = await listClaims(service.db, input)
      const views = await claimViews(service.db, service.terms, page.claims)
      const told = views.map((view, i) => {
        const row = page.claims[i]
        const { did, dispute, standing } = row ?? {}
        return { ...view, did, ...(dispute && { dispute }), ...(standing && { standing }) }
      })
      return { ...page, claims: told }
    },
  },
  'GET /payments/admin/accounts': {
    auth: 'operator' as const,
    summary: 'Accounts: one by its DID, or those that changed last.',
    input: inputs.accounts,
    run: async (input: z.output<typeof inputs.accounts>, { self: { service } }: Ctx) => {
      const { accountView, newestAccounts } = await import('../accounts/reading.ts')
      const dids =
        input.did === undefined ? await newestAccounts(service.db, input.limit) : [input.did]
      const accounts = await Promise.all(
        dids.map((did) => accountView(service.db, service.books, did)),
      )
      return { accounts }
    },
  },
  'POST /payments/admin/credit': {
    auth: 'operator' as const,
    summary: 'Gives an account money, for a reason.',
    input: inputs.credit,
    run: async (
      gift: z.output<typeof inputs.credit>,
      { self: { service }, caller }: OperatorCtx,
    ) => {
      const { giveCredit } = await import('../accounts/disputes.ts')
      const { accountView } = await import('../accounts/reading.ts')
      await giveCredit(service.db, service.books, { ...gift, who: caller })
      return accountView(service.db, service.books, gift.did)
    },
  },
  'POST /payments/admin/claims/:id': {
    auth: 'operator' as const,
    summary: 'Ends, reopens or refunds a claim.',
    input: inputs.decision,
    run: async (
      decision: z.output<typeof inputs.decision>,
      { self: { service }, caller }: OperatorCtx,
    ) => {
      const { decide } = await import('../accounts/disputes.ts')
      const { claimViews } = await import('../accounts/reading.ts')
      const changed = await decide(service.db, service.books, { ...decision, who: caller })
      const [view] = await claimViews(service.db, service.terms, [changed])
      return view ?? never()
    },
  },
}

function never(): never {
  throw new RuntimeError('INTERNAL', 'A claim that was just read is gone.')
}
