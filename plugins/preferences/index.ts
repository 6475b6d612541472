import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { changesSchema, preferencesSchema, promptFor, withChanges } from './record.ts'

export default definePlugin({
  name: 'preferences',
  version: '1.0.0',
  summary: 'How the user wants to be answered: tone, length, format, language, names.',
  whenToUse: ['The user asks to change how you answer, what you call them, or what they call you.'],
  whenNotToUse: ['The wish is about this one answer only.'],
  examples: ['Please answer in Swahili from now on.', 'Call me Amina.', 'Shorter answers, please.'],
  tags: ['preferences', 'settings', 'language', 'tone'],
  visibility: 'always',
  stability: 'stable',
  category: 'core',

  state: {
    userPreferences: preferencesSchema.default({}).meta({
      scope: 'room',
      description: 'What the user asked for, in every session of the room',
    }),
  },

  prompt: ({ state }) => promptFor(state.userPreferences),

  tools: {
    set_user_preferences: {
      description:
        'Remembers how the user wants to be answered, from now on and in later sessions. Give ' +
        'only the fields that change; null clears one.',
      effect: 'write',
      // The free text becomes part of every later prompt, so the user approves it wherever the client can show an approval.
      approve: ({ customInstructions }, { approvals }) =>
        approvals !== false && typeof customInstructions === 'string',
      input: changesSchema,
      output: z.object({ userPreferences: preferencesSchema }),
      run(changes, { state, shared }) {
        if (shared && typeof changes.userName === 'string')
          throw new RuntimeError(
            'INPUT_INVALID',
            'In a room with others nobody has a name alone.',
            {
              hint: 'Tell the user to say it in a direct conversation.',
            },
          )
        state.userPreferences = withChanges(state.userPreferences, changes)
        return { userPreferences: state.userPreferences }
      },
    },
  },

  routes: {
    'GET /user-preferences': {
      summary: 'What the caller has asked for.',
      output: z.object({ userPreferences: preferencesSchema }),
      run: (_, { state }) => ({ userPreferences: state.userPreferences }),
    },
    'PATCH /user-preferences': {
      summary: 'Changes some fields; null clears one.',
      input: changesSchema,
      output: z.object({ userPreferences: preferencesSchema }),
      run(changes, { state }) {
        state.userPreferences = withChanges(state.userPreferences, changes)
        return { userPreferences: state.userPreferences }
      },
    },
  },
})
