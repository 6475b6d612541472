const next = 'Ask me for something that the plugins here can do, or ask what I can do.'

/** How a person gets a real model. */
export const realModel =
  'set MODEL and the key of its provider, as docs/models.md says, and start again'

const self =
  'I am the demonstration model of this oracle: no person, and no language model. I match your words against what its ' +
  `plugins can do and call their tools for you. To talk to a real model, ${realModel}.`
const english = 'I am a demonstration model, and my own sentences are English.'

/** What people ask about the model itself, however long the message is. */
const aboutIt = [
  /\b(who|what) (are|r) you\b|\byour name\b.*\bwhat\b|\bwhat('?s| is) your name\b/,
  /^((so|hey|hi|hello|but) )?are you (really )?(real|human|alive|there|chatgpt|claude|gemini|siri|alexa|gpt)$/,
  /^((so|hey|hi|hello|but) )?are you (really )?an? (real |language )?(person|human( being)?|(ro|chat)?bot|machine|computer|ai|model|llm)$/,
  /^(what|which) (model|llm|ai) (are you|is this|do you use|am i talking to)\b/,
  /^how (do|can|could) (i|we) (set|add|use|get|change|choose) (an? |the |my |another |real )*(api )?(key|model)$/,
  /^how (does (this|it)|do you) work$/,
  /^(qui (es tu|êtes vous)|tu es qui|wewe ni nani|nani wewe|unaitwa nani|comment tu t'appelles)\b/,
]

/** Short messages, and what they are answered; the first form that fits counts. */
const forms: readonly (readonly [form: RegExp, answer: string])[] = [
  [/^no thank(s| you)$/, 'All right.'],
  [
    /^(thanks|thank you|thx|cheers|great|nice|cool|perfect|well done|awesome|wow)\b/,
    'You are welcome.',
  ],
  [/^(good|good (job|work|bot)|i (love|like) (you|it|this))$/, 'You are welcome.'],
  [/^(asante|ahsante|merci)\b/, `You are welcome. ${english}`],
  [/^(bye|goodbye|good night|see you)\b/, 'Goodbye. The session stays here for you.'],
  [
    /^(kwaheri|au revoir|à bientôt|bonne nuit)\b/,
    `Goodbye. The session stays here for you. ${english}`,
  ],
  [/^(hi|hello|hey|good (morning|afternoon|evening|day)|greetings)\b/, `Hello. ${next}`],
  [
    /^(jambo|hujambo|habari( (yako|gani|za \p{L}+))?|mambo|shikamoo|bonjour|bonsoir|salut|coucou|hola|ça va)( \p{L}+)?$/u,
    `Hello. ${english} ${next}`,
  ],
  [/\bhow are you\b/, 'All my rules are in their place, thank you.'],
  [/^(yes|yeah|yep|sure|yes please|ndiyo|oui|please)$/, `I have no question open. ${next}`],
  [/^(ok|okay|no|nope|never ?mind|forget it|stop|cancel|hapana|non|all right)$/, 'All right.'],
  [/^(i'm |i am )?sorry$/, 'There is nothing to be sorry for.'],
  [/^(test|testing|test test|ping|is anybody there|anybody there)$/, `I am here. ${next}`],
  [
    /^(why|why not|how|what|huh|what do you mean|i (do not|don't) understand|explain)$/,
    `I follow fixed rules and can explain no more than that: I look for your words in what the plugins say of themselves. ${next}`,
  ],
  [
    /^(no )?((you are|you're|that is|that's|this is) )?(wrong|not (right|true|correct)|stupid|useless|bad)$/,
    `That may well be: I follow fixed rules and understand little. ${next}`,
  ],
]

/** The answer to small talk; undefined when the message asks for something. */
export function smallTalk(message: string): string | undefined {
  if (!/[\p{L}\p{N}]/u.test(message)) return `I read words, and find none in this. ${next}`
  const said = message
    .toLowerCase()
    .replaceAll('’', "'")
    .replace(/[^\p{L}\s']/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim()
  if (aboutIt.some((form) => form.test(said))) return self
  if (said.split(' ').length > 6) return undefined
  return forms.find(([form]) => form.test(said))?.[1]
}
