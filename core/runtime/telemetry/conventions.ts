/**
 * The attributes of spans, by OpenTelemetry's semantic conventions 1.41. Those of `gen_ai` are in development and may be
 * spelled otherwise in a later version: they stand here and nowhere else.
 */
export const attributes = {
  method: 'http.request.method',
  route: 'http.route',
  status: 'http.response.status_code',
  scheme: 'url.scheme',
  error: 'error.type',
  operation: 'gen_ai.operation.name',
  agent: 'gen_ai.agent.name',
  conversation: 'gen_ai.conversation.id',
  provider: 'gen_ai.provider.name',
  requestModel: 'gen_ai.request.model',
  responseModel: 'gen_ai.response.model',
  finish: 'gen_ai.response.finish_reasons',
  address: 'server.address',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  cacheRead: 'gen_ai.usage.cache_read.input_tokens',
  cacheWrite: 'gen_ai.usage.cache_creation.input_tokens',
  tool: 'gen_ai.tool.name',
  toolCall: 'gen_ai.tool.call.id',
  toolType: 'gen_ai.tool.type',
  database: 'db.system.name',
  plugin: 'oracle.plugin',
  request: 'oracle.request.id',
  run: 'oracle.run.id',
  runStatus: 'oracle.run.status',
  attempt: 'oracle.job.attempt',
} as const
