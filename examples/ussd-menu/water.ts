import { z } from 'zod'
import { definePlugin } from 'oracle-runtime'
import ussd, { defineMenu } from 'oracle-runtime/plugins/ussd'

const en = {
  title: 'Water',
  home: 'Water points',
  report: 'Report a fault',
  askPlace: 'Which well?',
  thanks: 'Thank you. {place} is noted.',
}
const sw = {
  title: 'Maji',
  home: 'Vituo vya maji',
  report: 'Ripoti hitilafu',
  askPlace: 'Kisima gani?',
  thanks: 'Asante. {place} imeandikwa.',
}
const fr = {
  title: 'Eau',
  home: "Points d'eau",
  report: 'Signaler une panne',
  askPlace: 'Quel puits ?',
  thanks: "Merci. C'est noté : {place}.",
}

const water = defineMenu({
  name: 'water',
  title: 'title',
  start: 'home',
  texts: { en, sw, fr },
  screens: {
    home: { text: 'home', options: { '1': 'place' } },
    place: {
      title: 'report',
      ask: 'askPlace',
      input: z.string().min(2).max(40),
      next(place, ctx) {
        ctx.memory.place = place
        return 'thanks'
      },
    },
    thanks: {
      text: 'thanks',
      values: ({ memory }) => ({ place: memory.place ?? '' }),
      sample: { place: 'x'.repeat(40) },
    },
  },
})

export default definePlugin({
  name: 'water',
  summary: 'Reports about water points, over USSD.',
  visibility: 'silent',
  requires: [ussd],
  setup: ({ plugins }) => plugins.ussd.addMenu(water),
})
