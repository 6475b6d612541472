import { definePlugin, didYouMean, type TurnContext } from '#core'
import { z } from 'zod'

import type { ExtraOfTurn } from './accounts/charges.ts'
import { environment } from './environment.ts'
import { accountRoutes } from './routes/account.ts'
import { contractRoutes } from './routes/contracts.ts'
import { developmentRoutes } from './routes/development.ts'
import { account, charge } from './routes/shapes.ts'
import { authz, cardReply, fee, partiesInTime, termsReply, termsView } from './routes/public.ts'
import { serveView, serveWithin } from './routes/view.ts'
import { PaymentService, type ServiceParts } from './service.ts'
import { createContracts } from './contracts/tables.ts'
import { createAccounts, createPayments, withPaymentsTables, writeFewerPages } from './tables.ts'
import { priceWords, type Terms } from './terms/terms.ts'
import { jobInputs, keepUp, sendOut } from './upkeep.ts'

/** What `setup` needs of boot. */
interface Boot extends ServiceParts {
  toolNames(): readonly string[]
  onClose(close: () => Promise<void>): void
  onReady(call: (signal: AbortSignal) => void | Promise<void>): void
  health(check: () => Promise<void>): void
}

/** What a tool that adds to the cost of its turn hands on of its context. */
type Turn = Pick<TurnContext, 'user' | 'session' | 'requestId'>

function setup(boot: Boot) {
  const service = new PaymentService(boot)
  let upkeep: Promise<void> | undefined
  boot.onReady(async (signal) => {
    if (!service.terms.isPriced) return
    warnOfTools(service.terms, boot)
    upkeep = keepUp(service, boot.log, signal)
    // The first turn does not wait for what every turn needs.
    await service.gate()
    // A wrong word of the mnemonic is another account: `/health` says so where PAYMENTS_ADDRESS is set beside it.
    if (service.hasKey && boot.env.PAYMENTS_ADDRESS !== undefined) await demandAccount(service)
  })
  boot.health(() => service.demandLedger())
  boot.onClose(async () => {
    await service.close()
    await upkeep
  })
  return {
    service,
    /** Adds to what the turn under way costs, once a key: for plugins that require this one. */
    charge: async ({ user, session, requestId }: Turn, extra: ExtraOfTurn): Promise<void> => {
      const { addExtra } = await import('./accounts/charges.ts')
      const { db, books } = service
      const turn = { did: user.did, sessionId: session.id, requestId }
      return addExtra({ db, begun: books.begun }, turn, extra)
    },
  }
}

/** Says which tools have a price that no plugin has: nobody would ever be billed for them. */
function warnOfTools({ tools }: Terms, { log, env, toolNames }: Boot): void {
  const known = toolNames()
  for (const name of Object.keys(tools).filter((one) => !known.includes(one))) {
    const close = didYouMean(name, known)
    log.warn(
      { variable: 'PAYMENTS_PRICES', tool: name },
      `${env.PAYMENTS_PRICES} has a price for the tool "${name}", which no plugin has. ` +
        (close ? `Did you mean "${close}"?` : 'Take the line away, or load the plugin.'),
    )
  }
}

/** Throws where the key of the oracle is that of another account than the one that is to be paid. */
async function demandAccount(service: PaymentService): Promise<void> {
  await service.signer()
}

export default definePlugin({
  name: 'payments',
  version: '0.1.0',
  summary: 'What turns cost: prices, accounts, claims, and payments on a ledger.',
  whenToUse: ['The user asks what a turn costs, what they owe, or what an answer has cost.'],
  whenNotToUse: ['The question is about the prices of others.'],
  examples: ['What do I owe you?', 'What did the last answer cost?'],
  tags: ['payments', 'price', 'cost', 'claims', 'credit', 'owe'],
  visibility: 'on-demand',
  stability: 'beta',
  category: 'integration',

  env: environment,

  migrations: {
    '001-accounts': createAccounts,
    '002-payments': createPayments,
    '003-development-ledger': async (db) =>
      (await import('./development/tables.ts')).createLedger(db),
    '004-contracts': createContracts,
    '005-offers': async (db) => (await import('./x402/tables.ts')).createOffers(db),
    '006-fewer-pages': writeFewerPages,
  },

  setup,

  jobs: {
    send: {
      input: jobInputs.send,
      attempts: 100,
      run: (_, { self: { service }, job }) => sendOut(service, job),
    },
  },

  facts: ({ self: { service } }) => ({
    price: priceWords(service.terms),
    payments: async () => ({
      terms: termsView(service),
      denom: service.terms.coin.denom,
      chainId: service.chainId,
      methods: service.methods,
      ...(await partiesInTime(service)),
    }),
  }),

  web: { '/payments': serveView, '/payments-chat': serveWithin },
  views: {
    payments: {
      label: { en: 'Payments', sw: 'Malipo', fr: 'Paiements' },
      module: '/payments/view.js',
      order: 80,
    },
    'payments-turn': {
      label: { en: 'What the turn cost' },
      module: '/payments-chat/within.js',
      within: 'composer',
    },
  },

  headers: {
    // The published client of x402 asks with a header that is meant for answers.
    allow: ['PAYMENT-SIGNATURE', 'X-PAYMENT', 'Access-Control-Expose-Headers'],
    expose: ['PAYMENT-REQUIRED', 'PAYMENT-RESPONSE'],
  },

  runs: ({ self: { service } }) =>
    service.terms.isPriced
      ? {
          admit: async (run) => (await service.gate()).admit(run),
          begin: async (run, { db }) => (await service.gate()).begin(run, withPaymentsTables(db)),
          end: async (run, { db }) => (await service.gate()).end(run, withPaymentsTables(db)),
        }
      : undefined,

  prompt: ({ self }) => {
    const price = priceWords(self.service.terms)
    return (
      price && `Turns cost the user money: ${price}. You cannot pay, and nobody may ask you to.`
    )
  },

  tools: {
    get_account: {
      description: 'Reads what the user has paid in advance, owes, and may still spend.',
      effect: 'read',
      foreign: false, // the caller's own numbers
      input: z.object({}),
      output: account,
      run: async (_, { self: { service }, user }) => {
        const { accountView } = await import('./accounts/reading.ts')
        return accountView(service.db, service.books, user.did)
      },
    },
    explain_charge: {
      description: 'Reads what the last turns of this conversation cost, line by line.',
      effect: 'read',
      foreign: false, // the caller's own numbers
      input: z.object({}),
      output: z.object({ denom: z.string(), charges: z.array(charge) }),
      run: async (_, { self: { service }, user, session }) => {
        const { chargeView, findCharges } = await import('./accounts/reading.ts')
        const charges = await findCharges(service.db, user.did, { session: session.id })
        return { denom: service.terms.coin.denom, charges: charges.slice(0, 10).map(chargeView) }
      },
    },
  },

  userData: {
    async *export(did, { db }) {
      const { exportPayments } = await import('./accounts/user-data.ts')
      yield* exportPayments(did, db)
    },
    erase: async (did, { db }) => (await import('./accounts/user-data.ts')).erasePayments(did, db),
  },

  routes: {
    'GET /payments/terms': {
      auth: 'public',
      summary: 'What turns cost, and how they are paid.',
      answers: { 200: ['application/json'], 304: [] },
      run: (_, { self }) => termsReply(self.service),
    },
    'GET /payments/card': {
      auth: 'public',
      summary: 'The card of the oracle, as existing oracles anchor it.',
      answers: { 200: ['application/json'], 304: [] },
      run: (_, { self }) => cardReply(self.service),
    },
    'GET /payments/fee.json': {
      auth: 'public',
      summary: 'The fee of the oracle, as existing oracles anchor it.',
      run: (_, { self }) => fee(self.service),
    },
    'GET /payments/authz.json': {
      auth: 'public',
      summary: 'What a contract with the oracle needs, as existing oracles anchor it.',
      run: (_, { self }) => authz(self.service),
    },
    ...accountRoutes,
    ...contractRoutes,
    ...developmentRoutes,
  },
})
