import { z } from 'zod'
import { definePlugin } from '#core'
import a2a from '../a2a/index.ts'
import agUi from '../ag-ui/index.ts'
import aiSdk from '../ai-sdk/index.ts'
import openaiApi from '../openai-api/index.ts'

const door = z.object({ name: z.string(), title: z.string(), lines: z.string() })

export default definePlugin({
  name: 'connect',
  version: '1.0.0',
  summary: 'Says how clients of other protocols connect.',
  visibility: 'silent',
  defaultState: 'development',
  stability: 'beta',
  category: 'integration',
  uses: [a2a, agUi, aiSdk, openaiApi],

  setup({ plugins, oracle }) {
    const known = [plugins['openai-api'], plugins['ai-sdk'], plugins['ag-ui'], plugins.a2a]
    return {
      url: oracle.url,
      doors: () => {
        const url = oracle.url()
        return known.flatMap((peer) => peer?.connect(url) ?? [])
      },
    }
  },

  routes: {
    'GET /connect': {
      summary: 'What to paste into clients of other protocols.',
      auth: 'public',
      output: z.object({ url: z.string(), doors: z.array(door) }),
      run: (_, { self }) => ({ url: self.url(), doors: self.doors() }),
    },
  },
})
