import type { AgentCard } from '@a2a-js/sdk'
import { z } from 'zod'
import { definePlugin, reply, RuntimeError, type ToldError } from '#core'
import payments from '../payments/index.ts'
import { cardOf, servedCard } from './card.ts'
import { answerRpc } from './door.ts'

/** Codes of JSON-RPC by status; what the protocol has no code for is a fault of the server's. */
const codes = new Map([
  [400, -32600],
  [413, -32600],
  [404, -32601],
])

/** A refusal that came before the protocol had its say. */
const toRpc = ({ status, code, message, hint, details }: ToldError) => ({
  jsonrpc: '2.0',
  id: null,
  error: {
    code: codes.get(status) ?? -32603,
    message: hint ? `${message} ${hint}` : message,
    data: { code, ...(details !== undefined && { details }) },
  },
})

export default definePlugin({
  name: 'a2a',
  version: '1.0.0',
  summary: 'The A2A protocol, for other agents.',
  tags: ['a2a', 'agents', 'agent card'],
  visibility: 'silent',
  stability: 'beta',
  category: 'integration',
  uses: [payments],

  env: {
    A2A: z.enum(['on', 'off']).optional().meta({
      description:
        'Whether other agents may talk to the oracle by A2A: on outside of production where it is unset',
    }),
  },

  setup({ env, environment, oracle, capabilities, plugins }) {
    const parts = () => ({
      oracle,
      capabilities: capabilities().filter(({ isOn }) => isOn),
      hasPayments: plugins.payments !== undefined,
    })
    const isOn = (env.A2A ?? (environment === 'production' ? 'off' : 'on')) === 'on'
    let served: ReturnType<typeof servedCard> | undefined
    return {
      isOn,
      card: (): AgentCard => cardOf(parts()),
      served: () => (served ??= servedCard(parts())),
      /** What to paste into another agent; nothing where others do not come. */
      connect: (url: string) =>
        isOn
          ? [
              {
                name: 'a2a',
                title: 'Other agents, by A2A 1.0',
                lines: `card ${url}/.well-known/agent-card.json\nkey  Authorization: Bearer ok_…`,
              },
            ]
          : [],
    }
  },

  headers: { allow: ['A2A-Version', 'A2A-Extensions'], expose: ['ETag'] },
  errors: { '/a2a': toRpc },

  routes: {
    'GET /.well-known/agent-card.json': {
      summary: 'Who the oracle is to other agents.',
      auth: 'public',
      answers: { 200: ['application/json'], 304: [] },
      async run(_, { self, koa }) {
        if (!self.isOn) throw away()
        const { body, etag } = await self.served()
        const headers = { ETag: etag, 'Cache-Control': 'public, max-age=300' }
        if (koa.get('If-None-Match') === etag) return reply(304, undefined, { headers })
        return reply(200, JSON.parse(body), { headers })
      },
    },
    'POST /a2a': {
      summary: 'A request of another agent, as JSON-RPC.',
      answers: { 200: ['application/json', 'text/event-stream'] },
      body: { maxBytes: 1024 * 1024 },
      // The ids of messages tell repeats apart.
      idempotent: true,
      input: z.looseObject({}),
      run(body, { user, turns, koa, self }) {
        if (!self.isOn) throw away()
        return answerRpc(body, { user, turns, koa, card: self.card })
      },
    },
  },
})

/** In production the operator says that other agents may come. */
const away = () =>
  new RuntimeError('NOT_FOUND', 'Other agents do not talk to this oracle by A2A.', {
    hint: 'A2A=on lets them.',
  })
