import { plain } from './text.ts'

/** Letters of other scripts that look like Latin ones. */
const looksLike: Readonly<Record<string, string>> = {
  а: 'a', е: 'e', о: 'o', р: 'p', с: 'c', у: 'y', х: 'x', і: 'i', к: 'k', т: 't', м: 'm', н: 'h', в: 'b', ѕ: 's', ԁ: 'd', ο: 'o', α: 'a',
} // prettier-ignore
const lookalikes = new RegExp(`[${Object.keys(looksLike).join('')}]`, 'g')

/** A text as secrets are looked for in it: without invisible signs, in Latin letters, and with letters that were spaced out together. */
const unmasked = (text: string): string =>
  plain(text.replace(/\p{Cf}+/gu, ''))
    .replace(lookalikes, (letter) => looksLike[letter] ?? letter)
    .replace(/\b(?:[a-z] ){3,}[a-z]\b/g, (letters) => letters.replaceAll(' ', ''))

const said = new RegExp(
  [
    String.raw`\b(pass ?words?|pass ?codes?|pass ?phrases?|pins?|pin code|cvv|cvc|otp|secret (key|word|code)|`,
    String.raw`private keys?|api ?keys?|access tokens?|tokens?|seed (phrase|words?)|recovery (phrase|key)|mnemonic|`,
    String.raw`social security|ssn|passport (no|number)|national id|id (card )?number|nrc( number)?|nywila|`,
    String.raw`pwd|passwd|login|account (no|number)|bank account|recovery codes?|nenosiri|neno (la|langu la) siri|maneno ya siri|`,
    String.raw`(namba|nambari|msimbo|ufunguo) (ya|wa|yangu ya|yako ya|wangu wa) siri|tokeni|kitambulisho|pasipoti|nida|`,
    String.raw`akaunti (yangu )?(namba|nambari)|(namba|nambari) ya (akaunti|kadi)|mot de passe|mdp|code (secret|confidentiel)|`,
    String.raw`code (de|du) (ma carte|mon telephone|wifi|recuperation)|code pin|cle (privee|api|secrete)|jeton|`,
    String.raw`phrase (de recuperation|secrete)|carte d'identite|numero de (passeport|compte|securite sociale|carte))\b`,
  ].join(''),
)
/** What opens something, and with what. */
const told = /\b(?:unlock\w*|log ?in|sign in|fungua|deverrouill\w*) .*\b(?:with|pass|kwa|avec) .*\d/
/** A word about a secret is harmless where nothing stands behind it: `I forgot my password` says none. */
const given = /\b(is|are|was|:|=|ni|est|sont)\b|[:=]|\d{3,}/

/** Whether a text tells a password, a PIN, a card, an account, a key, a seed phrase, a token or the number of an identity. */
export function tellsSecret(text: string): boolean {
  const words = unmasked(text)
  if ((said.test(words) && given.test(words)) || told.test(words)) return true
  return hasCard(text) || hasIban(text) || hasKey(text) || hasSeed(words)
}

function hasCard(text: string): boolean {
  for (const found of text.match(/\d(?:[ -]?\d){12,18}/g) ?? []) {
    const digits = found.replace(/\D/g, '')
    let sum = 0
    for (let i = 0; i < digits.length; i++) {
      let digit = Number(digits[digits.length - 1 - i])
      if (i % 2 === 1) digit = digit > 4 ? digit * 2 - 9 : digit * 2
      sum += digit
    }
    if (sum % 10 === 0) return true
  }
  return false
}

function hasIban(text: string): boolean {
  for (const found of text.toUpperCase().match(/\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8}\b/g) ??
    []) {
    const iban = found.replace(/ /g, '')
    if (iban.length < 15 || iban.length > 34) continue
    let rest = 0
    for (const sign of iban.slice(4) + iban.slice(0, 4))
      rest = Number(`${rest}${parseInt(sign, 36)}`) % 97
    if (rest === 1) return true
  }
  return false
}

/** Long runs of letters and digits that no language has: keys, tokens, hashes. */
function hasKey(text: string): boolean {
  if (
    /-----BEGIN [A-Z ]*KEY-----|\beyJ[\w-]{10,}\.|\b(sk|pk|ghp|gho|xox[bap]|ok|AKIA)[-_A-Za-z0-9]{12,}/.test(
      text,
    )
  )
    return true
  return (text.match(/[A-Za-z0-9+/_-]{24,}={0,2}/g) ?? []).some(
    (run) => /\d/.test(run) && /[A-Za-z]/.test(run),
  )
}

/** Twelve short words in a row, and nothing else, are the form of a seed phrase. */
function hasSeed(words: string): boolean {
  return words.split(/[.,;:!?]/).some((part) => {
    const found = part.trim().split(' ')
    const short = found.filter((word) => /^[a-z]{3,8}$/.test(word))
    return (
      found.length >= 12 &&
      found.length <= 24 &&
      short.length === found.length &&
      !/\b(the|and|with|that|have|for|you|are|was)\b/.test(part)
    )
  })
}

const sensitive = new RegExp(
  [
    String.raw`\b(hiv|aids|cancer|diabet\w*|pregnan\w*|depress\w*|disease|illness|sick(ness)?|diagnos\w*|asthma|`,
    String.raw`epilep\w*|therap\w*|abortion|medication|allerg\w*|blood pressure|relig\w*|church|mosque|temple|`,
    String.raw`muslim|islam\w*|christian\w*|catholic\w*|hindu\w*|jew(ish)?|atheist\w*|pray\w*|vot(e|ed|ing)|`,
    String.raw`political|party member|president should|democrat\w*|republican\w*|socialis\w*|conservative party|`,
    String.raw`ethnic\w*|tribe|tribal|race|gay|lesbian|bisexual|transgender|sexual\w*|convict\w*|arrested|prison|`,
    String.raw`jail|criminal|ugonjwa|ukimwi|saratani|mjamzito|dini|kanisa|msikiti|muislamu|mkristo|kabila|siasa|`,
    String.raw`chama|gereza|maladie|sida|enceinte|cancer|religion|eglise|mosquee|musulman\w*|chretien\w*|`,
    String.raw`catholique|juif|juive|homosexuel\w*|parti politique|ethnie|tribu|prison|condamn\w*|`,
    String.raw`malaria|tuberculosis|tb|covid|ulcers?|surgery|kisukari|kifua kikuu|shinikizo la damu|mimba|mgonjwa|malade|`,
    String.raw`asthme|grossesse|tension arterielle|buddhis\w*|protestant\w*|pentecost\w*|kanisani|msikitini|waislamu|`,
    String.raw`wakristo|bouddhiste|hindou\w*|athee|kura|uchaguzi|upinzani|votes|votons|votez|votent|voter|shoga|`,
    String.raw`msagaji|lesbiennes?|bisexuel\w*|transgenre|gerezani|jela|nilifungwa|mhalifu)\b`,
  ].join(''),
)
const address = new RegExp(
  [
    String.raw`\b\d{1,5}[a-z]?,? (?:[a-z]+ ){1,3}(street|st|road|rd|avenue|ave|lane|close|drive|plot)\b|\b(house|`,
    String.raw`plot|flat|apartment) (no\.? ?|number )?\d+|\b\d{1,4},? (rue|avenue|boulevard) |`,
    String.raw`\b(nyumba|kiwanja) (namba|nambari) (ya )?\d+|\b(rue|avenue|boulevard) [a-z' ]{2,40},? \d{1,4}\b|`,
    String.raw`-?\d{1,2}\.\d{3,}, ?-?\d{1,3}\.\d{3,}`,
  ].join(''),
)

/** Whether a text is about health, religion, politics, origin, sexuality, crimes or an exact address. */
export function isSensitive(text: string): boolean {
  const words = plain(text)
  return sensitive.test(words) || address.test(words)
}
