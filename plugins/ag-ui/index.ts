import { definePlugin } from '#core'
import { answer } from './answer.ts'
import { bodyBytes, runInput } from './request.ts'

export default definePlugin({
  name: 'ag-ui',
  version: '1.0.0',
  summary: 'The AG-UI protocol, for CopilotKit and other front ends of agents.',
  tags: ['ag-ui', 'copilotkit', 'front end'],
  visibility: 'silent',
  stability: 'beta',
  category: 'integration',

  setup: ({ tools }) => ({
    tools,
    /** What to paste into a front end. */
    connect: (url: string) => ({
      name: 'ag-ui',
      title: 'Front ends of AG-UI, such as CopilotKit',
      lines: `new HttpAgent({\n  url: '${url}/ag-ui',\n  headers: { Authorization: 'Bearer ok_…' },\n})`,
    }),
  }),

  headers: { allow: ['X-Alone'], expose: ['X-Session-Id', 'X-Run-Id'] },
  errors: {
    '/ag-ui': ({ code, message, hint }) => ({
      type: 'RUN_ERROR',
      message: hint ? `${message} ${hint}` : message,
      code,
    }),
  },

  routes: {
    'POST /ag-ui': {
      summary: 'A run of the agent, as events of AG-UI.',
      answers: { 200: ['text/event-stream'] },
      body: { maxBytes: bodyBytes },
      // A stream is no answer that could be kept: the thread and the run name the turn.
      idempotent: true,
      input: runInput,
      run: (input, { user, turns, sessions, self: { tools }, koa, signal }) =>
        answer(input, { user, turns, sessions, tools, koa, signal }),
    },
  },
})
