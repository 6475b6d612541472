import { z } from 'zod'
import { definePlugin } from '#core'
import { agentModel, answer, plainModel, unknownModel } from './chat.ts'
import { toOpenAi } from './faults.ts'
import { bodyBytes, chatInput } from './request.ts'

/** A model as the protocol lists it. */
const listed = (id: string) => ({ id, object: 'model', created: 0, owned_by: 'oracle' })

/** Headers that browsers of this protocol's clients send. */
const sent = [
  ...['X-Session-Id', 'X-Conversation-Id', 'X-OpenWebUI-Chat-Id', 'OpenAI-Organization'],
  ...['OpenAI-Project', 'OpenAI-Beta'],
  ...[
    'Lang',
    'Package-Version',
    'OS',
    'Arch',
    'Runtime',
    'Runtime-Version',
    'Retry-Count',
    'Timeout',
  ].map((name) => `X-Stainless-${name}`),
]

export default definePlugin({
  name: 'openai-api',
  version: '1.0.0',
  summary: 'The OpenAI API, for its clients: Open WebUI, LibreChat, LangChain, every SDK.',
  tags: ['openai', 'chat completions', 'api'],
  visibility: 'silent',
  stability: 'beta',
  category: 'integration',

  setup({ prices }) {
    const models = [agentModel, plainModel, ...prices.map(({ id }) => `${agentModel}/${id}`)]
    return {
      models: [...new Set(models)],
      /** What to paste into a client. */
      connect: (url: string) => ({
        name: 'openai-api',
        title: 'The OpenAI API: Open WebUI, LibreChat, LangChain, SDKs',
        lines: `base address ${url}/openai/v1\nmodel        ${agentModel}\nAPI key      ok_…`,
      }),
    }
  },

  headers: { allow: sent, expose: ['X-Session-Id'] },
  errors: { '/openai/v1': toOpenAi },

  routes: {
    'GET /openai/v1/models': {
      summary: 'The models, in the words of OpenAI.',
      run: (_, { self }) => ({ object: 'list', data: self.models.map(listed) }),
    },
    'GET /openai/v1/models/:id': {
      summary: 'One of the models.',
      input: z.object({ id: z.string().max(300) }),
      run({ id }, { self }) {
        if (!self.models.includes(id)) throw unknownModel(id)
        return listed(id)
      },
    },
    'POST /openai/v1/chat/completions': {
      summary: 'A turn of the agent, in the words of OpenAI.',
      answers: { 200: ['application/json', 'text/event-stream'] },
      body: { maxBytes: bodyBytes },
      // A stream is no answer that could be kept: the key is the name of the turn.
      idempotent: true,
      input: chatInput,
      run: (input, { user, turns, models, koa, signal, now }) =>
        answer(input, { user, turns, models, koa, signal, now: now() }),
    },
  },
})
