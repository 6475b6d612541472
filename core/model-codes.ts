/** What one code of the catalogue means, and the HTTP status it answers with. */
export interface CodeEntry {
  readonly status: number
  readonly means: string
  /** The same request may succeed later, unchanged. */
  readonly retryable?: true
}

/** The codes of a model that cannot answer. These come in the `error` event of a turn. */
export const modelCodes = {
  MODEL_UNKNOWN: {
    status: 400,
    means: 'No model of this name is offered. The hint lists them.',
  },
  MODEL_CONTEXT_TOO_LONG: {
    status: 422,
    means: 'The conversation is longer than the model can read.',
  },
  MODEL_CANNOT_READ: {
    status: 422,
    means:
      'The model cannot read what is attached to the message. `details.models` lists those that can.',
  },
  MODEL_REFUSED: {
    status: 422,
    means: "The model's provider refused to answer this for reasons of content.",
  },
  MODEL_UNAUTHORIZED: { status: 502, means: "The model's provider did not accept our key." },
  MODEL_QUOTA_EXHAUSTED: {
    status: 502,
    means: "Our account with the model's provider has no credit left.",
  },
  MODEL_NOT_FOUND: {
    status: 502,
    means: "The provider has no such model, or its base address is wrong. Look at MODEL's value.",
  },
  MODEL_BAD_REQUEST: {
    status: 502,
    means: 'The provider did not accept the request as it stands. The log has its reason.',
  },
  MODEL_ANSWER_INVALID: {
    status: 502,
    means: 'What the provider sent is not the answer that was asked for.',
  },
  MODEL_ANSWER_TOO_LONG: { status: 502, means: 'The answer went past the size that is accepted.' },
  MODEL_CALLS_SPENT: { status: 429, means: 'Plugins have asked models too often in this turn.' },
  MODEL_UNREACHABLE: {
    status: 502,
    means: "The model's provider could not be reached.",
    retryable: true,
  },
  MODEL_STREAM_BROKEN: {
    status: 502,
    means: 'The answer broke off before its end.',
    retryable: true,
  },
  MODEL_FAILED: {
    status: 502,
    means: 'The provider reported a fault of its own.',
    retryable: true,
  },
  MODEL_RATE_LIMITED: {
    status: 503,
    means:
      "The model's provider asks us to slow down. `Retry-After` says for how long, where the provider says it.",
    retryable: true,
  },
  MODEL_OVERLOADED: {
    status: 503,
    means: "The model's provider has too much to do just now.",
    retryable: true,
  },
  MODEL_TIMEOUT: {
    status: 504,
    means: "The model's provider fell silent for too long.",
    retryable: true,
  },
} as const satisfies Record<string, CodeEntry>
