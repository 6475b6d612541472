import type { AgentCard } from '@a2a-js/sdk'
import { createHash } from 'node:crypto'
import type { CapabilityFacts, Oracle } from '#core'
import { loadSdk } from './sdk.ts'

/** What a card is made of. */
export interface CardParts {
  readonly oracle: Oracle
  readonly capabilities: readonly CapabilityFacts[]
  /** Whether the payments of the oracle have a card of their own. */
  readonly hasPayments: boolean
}

const words = ['text/plain']

/** The card of the oracle, unsigned. It holds what plugins say of themselves, and nothing of any user. */
export function cardOf({ oracle, capabilities, hasPayments }: CardParts): AgentCard {
  const url = oracle.url()
  const payments = {
    uri: `${url}/payments/card`,
    description: 'What the oracle asks payment for.',
    required: false,
    params: undefined,
  }
  return {
    name: oracle.name,
    description: `${oracle.name}, an agent. ${capabilities.map(({ summary }) => summary).join(' ')}`,
    supportedInterfaces: [
      { url: `${url}/a2a`, protocolBinding: 'JSONRPC', tenant: '', protocolVersion: '1.0' },
    ],
    provider: undefined,
    version: '1.0.0',
    capabilities: {
      streaming: true,
      pushNotifications: false,
      extendedAgentCard: false,
      extensions: hasPayments ? [payments] : [],
    },
    securitySchemes: {
      key: {
        scheme: {
          $case: 'httpAuthSecurityScheme',
          value: {
            description: 'A personal key of a user.',
            scheme: 'Bearer',
            bearerFormat: 'ok_…',
          },
        },
      },
    },
    securityRequirements: [{ schemes: { key: { list: [] } } }],
    defaultInputModes: words,
    defaultOutputModes: [...words, 'application/json'],
    skills: capabilities.map(({ name, summary, tags, examples, category }) => ({
      id: name,
      name,
      description: summary,
      tags: [...tags, ...(category ? [category] : [])],
      examples: [...examples],
      inputModes: [],
      outputModes: [],
      securityRequirements: [],
    })),
    signatures: [],
  }
}

const encoded = (bytes: string | Uint8Array) => Buffer.from(bytes).toString('base64url')

/** The card as it is served: its text, signed by the oracle's key where it has one, and the tag of the text. */
export async function servedCard(parts: CardParts): Promise<{ body: string; etag: string }> {
  const { AgentCard, canonicalizeAgentCard } = await loadSdk()
  const card = cardOf(parts)
  const { key } = parts.oracle
  if (key) {
    const header = encoded(JSON.stringify({ alg: 'EdDSA', kid: key.did, typ: 'JOSE' }))
    const payload = encoded(canonicalizeAgentCard(card))
    const signature = encoded(key.sign(Buffer.from(`${header}.${payload}`)))
    card.signatures = [{ protected: header, signature, header: undefined }]
  }
  const body = JSON.stringify(AgentCard.toJSON(card))
  const tag = createHash('sha256').update(
    JSON.stringify(AgentCard.toJSON({ ...card, signatures: [] })),
  )
  return { body, etag: `"${tag.digest('base64url').slice(0, 22)}"` }
}
