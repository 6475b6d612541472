import { createHash } from 'node:crypto'
import { reply } from '#core'
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
  const body = { ...view, methods }
  const digest = createHash('sha256').update(JSON.stringify(body)).digest('base64url')
  return reply(200, body, {
    headers: { ETag: `"${digest.slice(0, 22)}"`, 'Cache-Control': 'no-cache' },
  })
}

/** What existing oracles anchor as their card. */
export function card({ terms, oracle }: PaymentService) {
  const { coin, maximum } = terms
  const price = { amount: inCoins(maximum, coin.decimals), currency: coin.symbol }
  const services = [{ id: 'turn', name: 'A turn', price, deliverables: ['An answer'] }]
  return { credentialSubject: { id: oracle.did, name: oracle.did, services } }
}

/** What existing oracles anchor as their fee. */
export const fee = ({ terms, oracle }: PaymentService) => ({
  name: oracle.did,
  description: describe(terms),
  offers: {
    priceSpecification: {
      price: inCoins(terms.maximum, terms.coin.decimals),
      priceCurrency: terms.coin.symbol,
    },
  },
})

/** What existing oracles anchor of the rights that a contract needs. Rejects where the oracle makes no contracts. */
export async function authConfig(service: PaymentService) {
  const { oracle } = await service.parties()
  return {
    granteeAddress: oracle,
    oracleName: service.oracle.did,
    requiredPermissions: ['/cosmos.bank.v1beta1.MsgSend', '/ixo.claims.v1beta1.MsgSubmitClaim'],
    expirationDays: 30,
  }
}

const describe = (terms: Terms): string => priceWords(terms) ?? 'Turns are free.'
