import { createHash } from 'node:crypto'
import { reply, RuntimeError } from '#core'
import type { PaymentService } from '../service.ts'
import { inCoins } from '../terms/money.ts'
import { priceWords, type Terms } from '../terms/terms.ts'

/** What turns cost, as anybody may read it. */
export function termsView({ terms, methods }: PaymentService) {
  const { coin, turn, input, output, tokens, tools, maximum, freeTurns } = terms
  const priced = Object.entries(tools).map(([name, price]) => ({ name, price: String(price) }))
  return {
    prices: {
      turn: String(turn),
      input: String(input),
      output: String(output),
      tokens: tokens.map((line) => ({
        model: line.model,
        input: String(line.input),
        output: String(line.output),
      })),
      tools: priced,
    },
    maximum: String(maximum),
    free: freeTurns,
    ...coin,
    methods,
  }
}

/** The terms with an ETag, so that whoever has them is told so. */
export async function termsReply(service: PaymentService) {
  const view = termsView(service)
  const { network, asset, payTo } = service.signatureTerms
  const methods = [
    ...(service.hasTransfer ? [{ name: 'transfer', address: await service.address() }] : []),
    ...(service.hasFacilitator ? [{ name: 'x402', network, asset, address: payTo }] : []),
  ]
  return revised({ ...view, methods })
}

/** The card with an ETag, by which clients know one revision of it from another. */
export const cardReply = (service: PaymentService) => revised(card(service))

function revised(body: object) {
  const digest = createHash('sha256').update(JSON.stringify(body)).digest('base64url')
  return reply(200, body, {
    headers: { ETag: `"${digest.slice(0, 22)}"`, 'Cache-Control': 'no-cache' },
  })
}

/**
 * What existing oracles anchor as their card. The published chain client takes a price in whole coins that is a number, and a
 * card that is about the oracle's entity; every other card it drops without a word.
 */
function card({ terms, oracle }: PaymentService) {
  const { coin, maximum } = terms
  const price = { amount: Number(inCoins(maximum, coin.decimals)), currency: coin.symbol }
  const services = [{ id: 'turn', name: 'A turn', price, deliverables: 'An answer' }]
  const id = entityOf(oracle)
  return { credentialSubject: { id, name: id, services } }
}

/** The DID of the oracle's entity, by which clients of a ledger name it; without an entity the DID that it goes by. */
const entityOf = ({ did, aliases, key }: PaymentService['oracle']): string =>
  aliases.find((alias) => alias !== key?.did) ?? did

/** What existing oracles anchor as their fee: the published client grants this amount of this coin as it stands. */
export const fee = ({ terms, oracle }: PaymentService) => ({
  name: entityOf(oracle),
  description: describe(terms),
  offers: {
    priceSpecification: { price: String(terms.maximum), priceCurrency: terms.coin.denom },
  },
})

/** What existing oracles anchor of the rights that a contract needs. Rejects where the oracle makes no contracts. */
async function authConfig(service: PaymentService) {
  const { oracle } = await service.parties()
  return {
    granteeAddress: oracle,
    oracleName: service.oracle.did,
    requiredPermissions: ['/cosmos.bank.v1beta1.MsgSend', '/ixo.claims.v1beta1.MsgSubmitClaim'],
    expirationDays: 30,
  }
}

/** How long the first look at keys and accounts may take, which loads what reads them: less than a fact may. */
const partiesMs = 1_500

/**
 * Who is paid, and what a contract needs. Where that is late it is left out, and whoever reads the document next has it: that
 * the oracle takes payments at all has to stand there each time, or clients take it that there is nothing to pay with.
 */
export async function partiesInTime(service: PaymentService, ms = partiesMs) {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ms, undefined)
  })
  try {
    return await Promise.race([partiesOf(service), late])
  } finally {
    clearTimeout(timer)
  }
}

const partiesOf = async (service: PaymentService) => ({
  ...(service.hasTransfer && { address: await service.address() }),
  ...(service.hasKey && { authConfig: await authConfig(service) }),
})

/** The same as a route: an oracle that makes no contracts has no such document. */
export function authz(service: PaymentService) {
  if (service.hasKey) return authConfig(service)
  throw new RuntimeError('NOT_FOUND', 'This oracle makes no contracts: it has no key.', {
    hint: 'Claims are paid one by one. For contracts the operator sets PAYMENTS_MNEMONIC.',
  })
}

const describe = (terms: Terms): string => priceWords(terms) ?? 'Turns are free.'
