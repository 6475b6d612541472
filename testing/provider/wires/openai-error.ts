import type { ProviderFailure, ProviderRequest } from '../answers.ts'
import { textOf } from '../read.ts'

/** An error as Responses and chat completions word it. */
export function errorBody(status: number, message: string, code: string | null = null) {
  const type =
    code === 'insufficient_quota'
      ? code
      : status >= 500
        ? 'server_error'
        : status === 429
          ? 'rate_limit_error'
          : 'invalid_request_error'
  return { error: { message, type, param: null, code } }
}

/** The key in the headers of a request: as a bearer, or as some clouds want it. */
export const bearerOf = ({ headers }: ProviderRequest): string =>
  textOf(headers['api-key']) || textOf(headers.authorization).replace(/^Bearer /, '')

/** The sentence and the code for a failure that was asked for. */
export function failure(
  { status, why }: ProviderFailure,
  request: ProviderRequest,
): { message: string; code?: string } {
  const { model, tokens } = request
  if (why === 'quota')
    return {
      message: 'You exceeded your current quota, please check your plan and billing details.',
      code: 'insufficient_quota',
    }
  if (why === 'content')
    return {
      message:
        'The response was filtered due to the prompt triggering our content management policy.',
      code: 'content_filter',
    }
  if (why === 'context') return tooLong(tokens, Math.ceil(tokens / 2))
  switch (status) {
    case 401:
      return {
        message: `Incorrect API key provided: ${bearerOf(request)}.`,
        code: 'invalid_api_key',
      }
    case 404:
      return {
        message: `The model \`${model}\` does not exist or you do not have access to it.`,
        code: 'model_not_found',
      }
    case 429:
      return {
        message: `Rate limit reached for ${model} on tokens per min (TPM): Limit 30000, Used 29500, Requested ${tokens}.`,
        code: 'rate_limit_exceeded',
      }
    case 500:
      return { message: 'The server had an error while processing your request.' }
    case 503:
    case 529:
      return { message: 'The engine is currently overloaded, please try again later' }
    default:
      return { message: `Status ${status}` }
  }
}

/** What chat completions say of a conversation that is too long. */
export const tooLong = (tokens: number, window: number) => ({
  message:
    `This model's maximum context length is ${window} tokens. ` +
    `However, your messages resulted in ${tokens} tokens. Please reduce the length of the messages.`,
  code: 'context_length_exceeded',
})
