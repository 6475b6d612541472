/**
 * What the graph of the first turn of a process needs, in pieces: each import finds most of what it needs there already. Whoever
 * loads them one after the other, with pauses, answers others between them. The last one is the graph itself.
 */
export const enginePieces: readonly (() => Promise<unknown>)[] = [
  () => import('zod/v3'),
  () => import('@langchain/core/utils/uuid'),
  () => import('@langchain/core/utils/json_schema'),
  () => import('@langchain/core/utils/hash'),
  () => import('@langchain/core/errors'),
  () => import('@langchain/core/outputs'),
  () => import('@langchain/core/messages'),
  () => import('@langchain/core/runnables'),
  () => import('@langchain/core/output_parsers'),
  () => import('@langchain/core/prompts'),
  () => import('@langchain/core/language_models/base'),
  () => import('@langchain/core/language_models/chat_models'),
  () => import('@langchain/core/example_selectors'),
  () => import('@langchain/core/structured_query'),
  () => import('@langchain/core/indexing'),
  () => import('@langchain/core/load'),
  () => import('@langchain/langgraph-checkpoint'),
  () => import('@langchain/langgraph/channels'),
  () => import('@langchain/langgraph/pregel'),
  () => import('@langchain/langgraph'),
  () => import('./graph.ts'),
]
