import { z } from 'zod'
import { builtView, definePlugin } from '#core'
import a2a from '../a2a/index.ts'
import agUi from '../ag-ui/index.ts'
import aiSdk from '../ai-sdk/index.ts'
import { mcp } from '../mcp/index.ts'
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
  uses: [a2a, agUi, aiSdk, mcp, openaiApi],

  setup({ plugins, oracle }) {
    const { mcp, a2a } = plugins
    const known = [plugins['openai-api'], mcp, plugins['ai-sdk'], plugins['ag-ui'], a2a]
    return {
      url: oracle.url,
      doors: () => {
        const url = oracle.url()
        return known.flatMap((peer) => peer?.connect(url) ?? [])
      },
    }
  },

  web: {
    '/connect': builtView('/connect/view.js', new URL('./built/view.js', import.meta.url)),
  },
  views: {
    connect: {
      label: { en: 'Connect', sw: 'Unganisha', fr: 'Connecter' },
      module: '/connect/view.js',
      order: 120,
    },
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
