import { type CodeEntry, modelCodes } from './model-codes.ts'

export type { CodeEntry }

/**
 * Every code the kernel can answer with. Plugins throw these too (`NOT_FOUND`, `CONFLICT`, …), or
 * codes of their own together with a `status`. `docs/errors.md` is generated from this table.
 */
export const catalogue = {
  // A request that cannot be served as it stands.
  BAD_REQUEST: {
    status: 400,
    means: 'The request is malformed. The message names the part and the fault.',
  },
  INVALID_INPUT: {
    status: 400,
    means:
      'A field of the body, the query or the path is not what the route takes. `details` lists every fault.',
  },
  INVALID_JSON: {
    status: 400,
    means: 'The body is not JSON. The message says at which place the fault is.',
  },
  INPUT_INVALID: {
    status: 400,
    means:
      'What a plugin asked the runtime for cannot be done: data, a name, a date or a key is not what is taken there.',
  },
  UNSAFE_KEY: {
    status: 400,
    means: 'A key named `__proto__` or `constructor` stands in the body or the query.',
  },
  UNSAFE_TEXT: { status: 400, means: 'A string holds U+0000 or the bytes are not UTF-8.' },
  TOO_DEEP: { status: 400, means: 'The JSON nests deeper than 64 levels.' },
  UNAUTHORIZED: { status: 401, means: 'No valid credential came with the request.' },
  SIGNING_KEY_NOT_LOADED: {
    status: 401,
    means: 'The oracle has no signing mnemonic, so nobody can authenticate. Set ORACLE_MNEMONIC.',
  },
  PAYMENT_REQUIRED: { status: 402, means: 'The oracle wants the listed claims paid first.' },
  FORBIDDEN: {
    status: 403,
    means:
      'The caller is known and may not do this. `details.causes` says which capability is missing.',
  },
  NOT_GRANTED: {
    status: 403,
    means:
      'The caller is known and lacks a right on the oracle’s DID. ' +
      '`details` names the ability and the resource, `hint` how the operator grants it.',
  },
  KEY_TOO_WEAK: {
    status: 403,
    means:
      'A personal key came where it opens nothing: a signed request is wanted, or the key lacks the ability that is named.',
  },
  KEY_HAS_NO_USER: {
    status: 403,
    means: 'The API_KEY came where a person is meant. A person makes keys by `POST /keys`.',
  },
  NOT_FOUND: {
    status: 404,
    means: 'No route answers at this address, or the thing named does not exist for this caller.',
  },
  LEASE_LOST: {
    status: 503,
    means:
      'Another process does the work of a lease now. Whoever reads this in a request may send the request again.',
  },
  UNKNOWN_USER: {
    status: 404,
    means:
      'A plugin spoke to a DID that has never used this oracle: it has no session here, no stored delegation and no grant.',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    means: 'The path exists with other methods; the `Allow` header lists them.',
  },
  NOT_ACCEPTABLE: { status: 406, means: 'None of the media types in `Accept` can be served.' },
  REQUEST_TIMEOUT: { status: 408, means: 'The request did not arrive in time.' },
  BRANCHES_FULL: {
    status: 409,
    means: 'The conversation has as many branches as it may have: delete one of them first.',
  },
  FORK_TOO_LARGE: {
    status: 413,
    means: 'More of the conversation stands before that place than a fork copies.',
  },
  CONFLICT: { status: 409, means: 'The request contradicts the present state.' },
  IDEMPOTENCY_IN_PROGRESS: {
    status: 409,
    means: 'A request with this `Idempotency-Key` is still running. Repeat it later.',
  },
  SESSION_BUSY: {
    status: 409,
    means:
      'A turn is under way in the session, or a person is asked there, and the new turn was not to wait.',
    retryable: true,
  },
  GONE: { status: 410, means: 'The thing existed and is no more.' },
  PRECONDITION_FAILED: {
    status: 412,
    means: 'The `If-Match` of the request does not match the present version.',
  },
  BODY_TOO_LARGE: { status: 413, means: 'The body is larger than the route takes.' },
  ATTACHMENT_TOO_LARGE: {
    status: 413,
    means:
      'A file that is attached or kept is too large, the files of a message are too large together or too many, ' +
      'or the user has no room left for files. `details` says which file, and the limit.',
  },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, means: 'The route does not read this content type.' },
  ATTACHMENT_TYPE: {
    status: 415,
    means: 'The bytes of a file are of no known type, or of another kind than its sender says.',
  },
  UNPROCESSABLE: { status: 422, means: 'The request is well formed but cannot be carried out.' },
  IDEMPOTENCY_MISMATCH: {
    status: 422,
    means: 'This `Idempotency-Key` was used with another body.',
  },
  REQUEST_ID_REUSED: {
    status: 422,
    means: 'The user has a turn of this `requestId` already, with other words.',
  },
  PRECONDITION_REQUIRED: { status: 428, means: 'The request must carry `If-Match`.' },
  RATE_LIMITED: {
    status: 429,
    means: 'Too many requests. `Retry-After` says how many seconds to wait.',
  },
  TURNS_LIMIT: {
    status: 429,
    means:
      'Too many turns are under way, or were begun today: of this DID, from this address or on this server. ' +
      '`details` says which limit it is.',
  },
  BUDGET_SPENT: {
    status: 429,
    means:
      'The allowance of tokens or of money is used up: that of the user for today, or that of the turn. ' +
      '`Retry-After` says when the next day begins.',
    retryable: true,
  },
  TOO_MANY_CONNECTIONS: {
    status: 429,
    means:
      'This address reads as many event streams, or this DID or address holds as many sockets, as it may.',
  },
  JOBS_FULL: {
    status: 429,
    means:
      'Too many jobs wait: 10,000 of one user, or 100,000 of one plugin. `details` says which.',
  },
  QUEUE_FULL: {
    status: 429,
    means: 'As many turns wait in the session as may wait there.',
    retryable: true,
  },
  HEADERS_TOO_LARGE: { status: 431, means: 'The request headers are larger than 16 KiB.' },
  APPROVAL_NEEDED: {
    status: 409,
    means:
      'A tool that asks a person first was called outside a turn, or by a test, and nobody has said that a person approved it.',
  },
  INTERNAL: { status: 500, means: 'A fault on our side. The log has it under the request id.' },
  RAW_NOT_KEPT: {
    status: 500,
    means: 'A handler reads `ctx.raw` in a route without `raw: true`.',
  },
  NOT_IMPLEMENTED: {
    status: 501,
    means: 'The thing behind this address is switched off or not part of this deployment.',
  },
  UPSTREAM_FAILED: {
    status: 502,
    means: 'A service behind the runtime answered wrongly or not at all.',
  },
  DELIVERY_FAILED: {
    status: 502,
    means:
      'The receiver of a webhook could not be reached, or could not take it now. `details.status` is its answer, if there was one, ' +
      'and `Retry-After` what it asked for.',
    retryable: true,
  },
  UNAVAILABLE: { status: 503, means: 'Not able to serve just now. Try again later.' },
  ADMISSION_TIMEOUT: {
    status: 503,
    means:
      'The plugins that are asked before a turn begins did not answer in time. Nothing is recorded; ' +
      '`Retry-After` says when to send the same again.',
    retryable: true,
  },
  PLUGIN_PENDING: {
    status: 503,
    means:
      'The plugin behind this address has not finished starting. The hint says what it waits for, `Retry-After` when to ask again.',
  },
  PLUGIN_FAILED: {
    status: 503,
    means:
      'The plugin behind this address could not start and serves nothing until the next start of the server. The hint says why.',
  },
  ISSUER_LOOKUP_UNAVAILABLE: {
    status: 503,
    means:
      'The DID resolver cannot be asked about the issuer of the credential just now. `Retry-After` says when to send the same again.',
    retryable: true,
  },
  ADDRESS_REFUSED: {
    status: 422,
    means:
      'An address that the server was asked to call may not be called: it lies inside the network, or it is not https at port 443. ' +
      '`OUTBOUND_ALLOW` names the hosts that may be called all the same.',
  },
  ATTACHMENT_UNREACHABLE: {
    status: 422,
    means:
      'What is attached by its address could not be brought: it is not there, too slow, or not at a public address.',
  },
  DELIVERY_REFUSED: {
    status: 422,
    means:
      'The receiver of a webhook refused it, and would refuse it again. `details.status` is its answer.',
  },
  DATABASE_UNREACHABLE: { status: 503, means: 'The database does not answer.' },
  UPSTREAM_TIMEOUT: { status: 504, means: 'A service behind the runtime did not answer in time.' },
  DELIVERY_TIMEOUT: {
    status: 504,
    means: 'The receiver of a webhook did not answer within ten seconds.',
    retryable: true,
  },
  CLIENT_TIMEOUT: {
    status: 504,
    means: 'The client did not answer a call of one of its own tools in time.',
  },
  CLIENT_ABSENT: {
    status: 503,
    means: 'A tool of the client was called, and no page of the user is connected.',
  },

  // A tool call that does not happen, or whose outcome is unknown. Models read these.
  WAITING: { status: 202, means: 'The call waits for a person to agree to it.' },
  CONSENT_NEEDED: {
    status: 403,
    means: 'The turn has read words of others: the call waits for the user’s next message.',
  },
  REJECTED: { status: 403, means: 'A person was asked to agree to the call, and said no.' },
  TOO_MANY_CALLS: { status: 422, means: 'The model asked for too many calls at once.' },
  REPEATED_CALL: {
    status: 422,
    means: 'The same call has failed three times in this turn, so it is not tried again.',
  },
  ABORTED: { status: 499, means: 'The turn was stopped before the call ended.' },
  OUTCOME_UNKNOWN: {
    status: 500,
    means:
      'A crash interrupted a write: the write may have happened or not, and is never repeated.',
  },
  TOOL_TIMEOUT: {
    status: 504,
    means:
      'A tool took longer than its `timeoutMs`. A read may be called again; the outcome of a write is unknown.',
  },
  SUBAGENT_RESULT_INVALID: {
    status: 502,
    means:
      'A sub-agent returned nothing that fits its `output`: it was told twice what was wrong, or ran out of model calls.',
  },
  RUN_QUARANTINED: {
    status: 500,
    means:
      'The process died twice while it carried the turn, so the turn was set aside for the operator.',
  },
  CLIENT_TOOL_FAILED: { status: 502, means: 'A tool of the client failed in the client.' },

  ...modelCodes,

  // A boot that cannot go on. The status is what a library caller sees if one of these escapes.
  BOOT_FAILED: {
    status: 500,
    means: 'The boot found faults; `details.faults` lists every one with its code.',
  },
  MANIFEST_INVALID: { status: 500, means: 'A plugin describes itself wrongly.' },
  PLUGIN_DUPLICATE: { status: 500, means: 'Two plugins share one name.' },
  PLUGIN_UNKNOWN: {
    status: 500,
    means: 'A name in FEATURES or the features option belongs to no plugin.',
  },
  PLUGIN_CYCLE: { status: 500, means: 'Plugins require each other in a circle.' },
  REQUIRED_PLUGIN_MISSING: {
    status: 500,
    means: 'A plugin requires one that was not given to createApp.',
  },
  REQUIRED_PLUGIN_DISABLED: {
    status: 500,
    means: 'A force-loaded plugin requires one that cannot load.',
  },
  ENV_INVALID: {
    status: 500,
    means: 'An environment variable is set to a value that cannot be used.',
  },
  ENV_MISSING: {
    status: 500,
    means:
      'A force-loaded plugin lacks a required environment variable, or others can reach the server and NODE_ENV is unset.',
  },
  ENV_CONFLICT: { status: 500, means: 'Two owners declare one environment variable.' },
  TOOL_CONFLICT: { status: 500, means: 'Two plugins offer one tool name.' },
  TOOL_INVALID: { status: 500, means: 'A tool cannot be offered to a model as it is declared.' },
  SUBAGENT_INVALID: {
    status: 500,
    means:
      'A sub-agent cannot be called as it is declared, or names a tool that its plugin does not have or may not borrow.',
  },
  ROUTE_CONFLICT: { status: 500, means: 'Two owners declare one route.' },
  ROUTE_INVALID: {
    status: 500,
    means: 'A route key, an option of a route, or a mount is malformed.',
  },
  STATE_CONFLICT: { status: 500, means: 'Two plugins declare one state key.' },
  STATE_INVALID: {
    status: 500,
    means: 'A state key is no schema, or is neither optional nor has a default.',
  },
  JOB_INVALID: {
    status: 500,
    means: 'A job is declared wrongly: its schedule, its time zone, or another field.',
  },
  MIGRATION_FAILED: { status: 500, means: 'A table could not be created or changed.' },
  METRIC_INVALID: {
    status: 500,
    means: 'A metric of a plugin has a name that is taken or not well formed, or other faults.',
  },
  SETUP_FAILED: { status: 500, means: 'The setup function of a plugin threw.' },
  DATA_DIR_IN_USE: { status: 500, means: 'Another server runs on this DATA_DIR.' },
  DATA_DIR_UNUSABLE: { status: 500, means: 'DATA_DIR cannot be created or written.' },
  INSTRUCTIONS_INVALID: {
    status: 500,
    means: 'The instructions that were given to createApp are no text, or longer than 16 KiB.',
  },
  OPTION_INVALID: {
    status: 500,
    means: 'An option that was given to createApp is not of its kind.',
  },
  PORT_IN_USE: { status: 500, means: 'Something else listens on this address.' },
  MODEL_UNUSABLE: {
    status: 500,
    means:
      'What was given to createApp as a model does not work as one, or a model cannot be opened.',
  },
  MODEL_MISSING: {
    status: 500,
    means: 'No model answers: none is given, and no plugin brings one.',
  },
  MODEL_CONFLICT: { status: 500, means: 'Two plugins bring models of one provider.' },
} as const satisfies Record<string, CodeEntry>

/** A code of the catalogue. */
export type Code = keyof typeof catalogue
