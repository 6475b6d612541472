/** What the model says of itself in its first answer of a session. */
export const introduction =
  'I am the demonstration model: fixed rules that need no key and no network, ' +
  'and tools that are really called. (Set MODEL to talk to a real one.)'

/** Whether the message asks what the plugins can do, and not for one thing in particular. */
export function asksWhatThereIs(message: string): boolean {
  return (
    /\bwhat (can|could) (you|this|it) do\b|\bwhat (are|can be) your (capabilit|skill|abilit)/i.test(
      message,
    ) ||
    /\b(unaweza kufanya nini|que (peux|sais)[- ]tu faire|que pouvez[- ]vous faire|tu (peux|sais) faire quoi)\b/i.test(
      message,
    ) ||
    /\b(list|show|which|what)\b.{0,20}\b(capabilities|plugins|tools|skills)\b/i.test(message) ||
    /^\s*((can|could) you help( me)?|help( me)?|msaada|nisaidie|aide([- ]moi)?|capabilities|plugins|tools)(,? please)?\s*[?!.]*\s*$/i.test(
      message,
    )
  )
}

/** Whether the message drops the request about which the model asked a question. */
export function givesUp(message: string): boolean {
  const isCourtesy = /^\s*(thanks|thank you|hi|hello|hey|bye|goodbye)\b.{0,12}$/i.test(message)
  return (
    isCourtesy ||
    /^\s*(never ?mind|forget (it|that)|cancel|stop|no,? thanks?|skip( it)?|leave it)\b/i.test(
      message,
    )
  )
}

/** Whether the message asks for a long answer. People use one to try out Stop, reload and resume. */
export function asksForLength(message: string): boolean {
  return (
    /\b(story|tale|essay|poem|novel|long (answer|text|reply|message)|at length)\b/i.test(message) ||
    /\b(in (great )?detail about yourself|\d{3,} words)\b/i.test(message) ||
    /\bcount\b.{0,12}\b(to|from|until|up)\b/i.test(message)
  )
}

/** A long answer: four hundred words in which the model describes itself. */
export const longAnswer = `
You asked for something long, so here are four hundred words about the only subject I know well, which
is myself. I am a demonstration model. Nobody trained me, nobody pays for my tokens, and nothing you
write to me leaves this machine. Where a language model has billions of numbers, I have a few pages of
rules, and you can read all of them.

This is how I work. I take your message apart into words and forget the ones that mean little. What
remains I compare with the names, tags and descriptions of everything that the plugins of this oracle
offer. When the right tool is already at hand, I call it. When it is not, I ask for the list of
capabilities, load the plugin that fits best, and find its tools waiting for me in the same turn. Then
I read the schema of the tool and look for its arguments in your sentence: a city behind a preposition,
a number next to the word that explains it, a percentage, an identifier, a word from a list. What I
cannot find, I ask you for, and your next message may answer me.

All of that is real. The tool runs, the approval waits for a person, and the result is stored in your
session like any other. Only the talking is pretended. I put the result into a plain sentence, I never
invent a fact, and when something fails I say so in words that a person understands.

I speak at about twenty-five words a second, one word after the other, because that is how a real
model feels. It gives you time to try what is hard to try with short answers. Press Stop in the middle
of this sentence and see it end at once, and that what was said stays in the transcript. Reload
the page, and the rest of the answer arrives where you left it. Open a second window and watch both of
them read the same words. Stop the server altogether and start it: the run goes on, or it is closed
with a plain notice.

When you want a real conversation, set MODEL to the name of a model behind any compatible endpoint,
give the key, and start again. Everything else stays as it is. Until then I am
here, without a key, without a network, and always sober.
`
  .trim()
  .replace(/(?<!\n)\n(?!\n)/g, ' ')
