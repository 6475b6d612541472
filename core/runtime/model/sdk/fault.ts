import { fieldsIn } from '../../base/fields.ts'
import { RuntimeError } from '../../../errors.ts'
import { modelFault } from '../transport/model-fault.ts'
import { providerFault, type Asked } from '../transport/provider-fault.ts'

/**
 * A fault of a package of the AI SDK as one of ours. Its errors hold the whole request, with the words of users, so nothing
 * is read of them but the status, the headers and the body of the provider's answer, and the name of their class.
 * `isBegun` says that the answer had begun.
 */
export function aiSdkFault(error: unknown, asked: Asked, isBegun: boolean): RuntimeError {
  if (error instanceof RuntimeError) return error
  if (!(error instanceof Error)) return providerFault({ text: wordsOf(error) }, asked)
  const { statusCode, responseHeaders, responseBody } = fieldsIn(error)
  // A stream that ends amid its answer comes as an error with the status of the answer, and without a body.
  const isCut = isBegun && statusCode === 200 && !responseBody
  if (typeof statusCode === 'number' && !isCut) {
    const headers = Object.fromEntries(
      Object.entries(fieldsIn(responseHeaders)).map(([name, value]) => [
        name.toLowerCase(),
        String(value),
      ]),
    )
    const text = typeof responseBody === 'string' ? responseBody : ''
    return providerFault({ status: statusCode, headers, text }, asked)
  }
  const kind = /^AI_\w{1,60}$/.test(error.name) ? error.name : 'Error'
  const cause = new Error(kind)
  if (/APIKey|LoadSetting/.test(kind))
    return modelFault('MODEL_UNAUTHORIZED', asked.host, 'was given no credentials.', {
      check: `Set ${asked.settings.key}.`,
      cause,
    })
  if (/Unsupported|InvalidPrompt|InvalidArgument|NoSuch/.test(kind))
    return modelFault('MODEL_BAD_REQUEST', asked.host, 'cannot be asked this.', { cause })
  if (/JSONParse|TypeValidation|InvalidResponse|EmptyResponse/.test(kind))
    return modelFault('MODEL_ANSWER_INVALID', asked.host, 'answered with what is no answer.', {
      cause,
    })
  const later = { hint: 'Try again in a moment.', cause }
  if (isBegun) return modelFault('MODEL_STREAM_BROKEN', asked.host, 'broke off its answer.', later)
  // Such an error without a status had no answer.
  if ('statusCode' in error)
    return modelFault('MODEL_UNREACHABLE', asked.host, 'cannot be reached.', later)
  return modelFault('MODEL_FAILED', asked.host, 'failed to answer.', later)
}

/** What a provider said amid its answer. The packages hand it on as it came. */
function wordsOf(said: unknown): string {
  try {
    return (
      (typeof said === 'string' ? JSON.stringify({ message: said }) : JSON.stringify(said)) ?? ''
    )
  } catch {
    return ''
  }
}
