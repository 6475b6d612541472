/**
 * Words that the kernel writes in quotes for reasons of its own, by the file and with the reason: a plugin may have such a
 * name, and these places do not mean the plugin. A quote of the same word in any other file of the kernel does.
 */
export const kernelWords: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  calls: {
    'core/runtime/auth/callers.ts': 'the limit that counts calls of a DID',
  },
  connect: {
    'core/runtime/http/http.ts': 'an event of Node’s HTTP server',
    'core/runtime/model/transport/post.ts': 'an event of Node’s sockets',
    'core/runtime/store/postgres.ts': 'an event of the PostgreSQL pool',
  },
  data: {
    'core/manifest/manifest.ts': 'a category of plugins',
    'core/plugin/manifest.ts': 'the same category, as a type',
    'core/runtime/http/answer/answer.ts': 'an event of Node’s streams',
    'core/runtime/http/answer/sse.ts': 'a key of an event that a route sends',
    'core/runtime/http/read/body.ts': 'an event of Node’s streams',
    'core/runtime/http/read/continue.ts': 'an event of Node’s streams',
    'core/runtime/model/sdk/prompt.ts': 'the kind of a file’s bytes, as packages take them',
    'core/runtime/model/transport/post.ts': 'an event of Node’s streams',
    'core/runtime/turns/events/session-events.ts': 'a key of an event that a plugin follows',
    'core/runtime/turns/events/parts.ts': 'a key of an event that a plugin reads',
    'core/runtime/turns/started/plugin-turn.ts': 'a key of an event that a plugin reads',
    'core/runtime/turns/journal/event-lines.ts': 'a column of the table of events',
    'core/testing/turn.ts': 'a key of an event that was streamed',
    'core/webhooks/deliver.ts': 'an event of Node’s streams',
  },
  health: {
    'core/plugin/boot.ts': 'a key of what a setup is given',
  },
  memory: {
    'core/manifest/manifest.ts': 'a category of plugins',
    'core/plugin/manifest.ts': 'the same category, as a type',
  },
  messages: {
    'core/runtime/turns/journal/steps.ts': 'a key of an entry of the journal',
    'core/runtime/model/settings.ts': 'a field of a request that nobody sets by hand',
    'core/testing/scripted-model.ts': 'a key of what a model is asked',
  },
  usage: {
    'core/runtime/model/sdk/answer-parts.ts': 'that kind of delta',
    'core/runtime/agent/ask/model-call.ts': 'a key of a reply of a model',
    'core/runtime/agent/ask/tally.ts': 'a kind of delta, and a key of a reply',
    'core/plugin/model.ts': 'a kind of delta that models stream',
    'core/runtime/model/aside/ask-aside.ts': 'that kind of delta',
    'core/runtime/model/assemble.ts': 'that kind of delta',
    'core/runtime/model/langchain.ts': 'that kind of delta',
    'core/testing/scripted-model.ts': 'that kind of delta',
    'core/testing/contract/judge.ts': 'that kind of delta',
  },
}
