import type { AnyPlugin } from '#core'
import a2a from './a2a/index.ts'
import agUi from './ag-ui/index.ts'
import aiSdk from './ai-sdk/index.ts'
import calls from './calls/index.ts'
import connect from './connect/index.ts'
import feedback from './feedback/index.ts'
import mcpServers from './mcp/index.ts'
import memory from './memory/index.ts'
import messaging from './messaging/index.ts'
import openaiApi from './openai-api/index.ts'
import payments from './payments/index.ts'
import playground from './playground/index.ts'
import preferences from './preferences/index.ts'
import queryGateway from './query-gateway/index.ts'
import registry from './registry/index.ts'
import sampling from './sampling/index.ts'
import showcase from './showcase/index.ts'
import usage from './usage/index.ts'
import ussd from './ussd/index.ts'
import weather from './weather/index.ts'

/** The plugins that come with the runtime, as `npm start` loads them. */
export const bundled = [
  a2a,
  agUi,
  aiSdk,
  calls,
  connect,
  feedback,
  mcpServers,
  memory,
  messaging,
  openaiApi,
  payments,
  playground,
  preferences,
  queryGateway,
  registry,
  sampling,
  showcase,
  usage,
  ussd,
  weather,
]

/** The same one by one, as they are where nothing is configured. */
export const bundledPlugins: readonly AnyPlugin[] = bundled.flatMap(
  (entry): readonly AnyPlugin[] =>
    typeof entry === 'function' ? entry({ DATA_DIR: ':memory:' }) : [entry],
)
