import { defineMenu } from '../screens/menu.ts'

/** The menu that explains the service and its use. */
export const knowMore = defineMenu({
  name: 'know-more',
  title: 'title',
  start: 'topics',
  texts: {
    en: {
      title: 'Know more',
      topics: 'What would you like to know?',
      about: 'About the oracle',
      aboutText:
        'The oracle is an assistant that looks things up, answers questions and acts for you. It is a computer program and can be wrong.',
      use: 'How to use this',
      useText:
        'Reply with the number of a line. 0 goes back, 98 shows more, * on the first screen ends ' +
        'the call. An answer waits for you when you dial again.',
      safety: 'Your PIN',
      safetyText:
        'Your PIN is five digits, and only you know it. We never ask for it by call or message.',
    },
    sw: {
      title: 'Jua zaidi',
      topics: 'Ungependa kujua nini?',
      about: 'Kuhusu oracle',
      aboutText:
        'Oracle ni msaidizi anayetafuta habari, kujibu maswali na kukutendea kazi. Ni programu ya kompyuta na inaweza kukosea.',
      use: 'Jinsi ya kutumia',
      useText:
        'Jibu kwa namba ya mstari. 0 hurudi, 98 huonyesha zaidi, * kwenye ukurasa wa kwanza humaliza. Jibu hukusubiri ukipiga tena.',
      safety: 'PIN yako',
      safetyText:
        'PIN yako ina tarakimu tano, na ni siri yako. Hatuiulizi kamwe kwa simu wala ujumbe.',
    },
    fr: {
      title: 'En savoir plus',
      topics: 'Que souhaitez-vous savoir ?',
      about: "A propos de l'oracle",
      aboutText:
        "L'oracle est un assistant qui cherche, répond et agit pour vous. C'est un programme informatique : il peut se tromper.",
      use: "Mode d'emploi",
      useText:
        'Répondez par le numéro de la ligne. 0 revient, 98 montre la suite, * au premier écran ' +
        'termine. La réponse vous attend au prochain appel.',
      safety: 'Votre code PIN',
      safetyText:
        'Votre code a cinq chiffres et vous seul le connaissez. Nous ne le demandons jamais par appel ni message.',
    },
  },
  screens: {
    topics: { text: 'topics', options: { '1': 'about', '2': 'use', '3': 'safety' } },
    about: { title: 'about', text: 'aboutText' },
    use: { title: 'use', text: 'useText' },
    safety: { title: 'safety', text: 'safetyText' },
  },
})
